# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home over HTTP: every route, sizes, and what is not a request."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from homeserver.api import home_app
from images import SIGNATURE_NAMESPACE, Manifest
from media import Media
from replay import decode_operations, encode_operations, responses_in
from satchel.errors import (
    ConflictError,
    NotFoundError,
    StateError,
    UnavailableError,
    UnsupportedError,
    UsageError,
)
from satchel.errors import SatchelError as AnyError
from tests.homeserver.conftest import Bench
from tests.needs import requires
from tests.scripted import operation
from tests.serving import served
from wire import ChunkClient, HttpClient, Identity, ServiceStatus, serve, signer_of

pytestmark = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")

NOTES = "/v1/services/notes"


@pytest.fixture
def api(bench: Bench, short_path: Path) -> Iterator[HttpClient]:
    with served(home_app(bench.home), short_path) as client:
        yield client


@pytest.fixture
def notes(api: HttpClient) -> HttpClient:
    """With the service added and launched."""
    api.post_json("/v1/services", {"name": "notes", "image": "notes"})
    api.post_json(f"{NOTES}/launch", {})
    return api


def status(api: HttpClient) -> ServiceStatus:
    return ServiceStatus.from_json(api.get_json(NOTES))


def submit(api: HttpClient, *numbers: int, client: str = "laptop", query: str = "") -> list[int]:
    data = encode_operations(operation(number) for number in numbers)
    headers = {"X-Satchel-Client": client}
    answer = api.post_bytes(f"{NOTES}/operations{query}", data, headers=headers)
    return [response.number for response in responses_in([answer])]


@pytest.mark.parametrize("query", ["", "?early=1"])
def test_without_a_replica_an_operation_is_logged_all_the_same(api: HttpClient, query: str) -> None:
    api.post_json("/v1/services", {"name": "notes", "image": "notes"})
    with pytest.raises(StateError, match="satchel-home launch notes"):
        submit(api, 1, query=query)
    assert status(api).last_logged == 1
    api.post_json(f"{NOTES}/launch", {})
    assert submit(api, 1, 2, query=query) == [1, 2]


def test_the_life_of_a_service(api: HttpClient) -> None:
    assert api.get_json("/v1/services") == []
    api.post_json("/v1/services", {"name": "notes", "image": "notes"})
    (row,) = api.get_json("/v1/services")
    assert (row["name"], row["state"], row["checkpoint"]) == ("notes", "down", None)
    with pytest.raises(NotFoundError, match="satchel-home launch notes"):
        api.get_json(f"{NOTES}/checkpoint")
    launched = api.post_json(f"{NOTES}/launch", {})
    assert launched["state"] == "ready"
    assert status(api).checkpoint == launched["checkpoint"]
    assert submit(api, 1, 2) == [1, 2]
    assert (status(api).last_logged, status(api).last_executed) == (2, 2)
    taken = api.post_json(f"{NOTES}/checkpoint", {"media": "", "doubtful": "refuse"})
    assert taken["operation"] == 2
    assert status(api).checkpoint == taken["checkpoint"]
    assert api.post_json(f"{NOTES}/stop", {})["state"] == "down"
    api.delete(NOTES)
    assert api.get_json("/v1/services") == []


def test_the_newest_checkpoint_is_signed_and_its_chunks_are_there(
    notes: HttpClient, bench: Bench
) -> None:
    found = notes.get_json(f"{NOTES}/checkpoint")
    data = found["manifest"].encode()
    owner = Identity.open(bench.settings.identity).fingerprint
    assert signer_of(data, found["signature"].encode(), SIGNATURE_NAMESPACE) == owner
    manifest = Manifest.from_bytes(data)
    refs = bench.home.store.reachable(manifest.roots())[: 52 * 100]
    records = ChunkClient(notes).fetch(refs)
    assert records == bench.home.store.records(refs)


def test_operations_are_listed(notes: HttpClient) -> None:
    submit(notes, 1, 2, 3, 4, 5)

    def numbers(query: str) -> list[int]:
        return [o.number for o in decode_operations(notes.get_bytes(f"{NOTES}/operations{query}"))]

    assert numbers("") == [1, 2, 3, 4, 5]
    assert numbers("?after=3") == [4, 5]
    assert numbers("?after=1&limit=2") == [2, 3]
    assert numbers("?after=99") == []
    for query in ("?limit=0", "?limit=-1", "?after=-1", "?after=x", "?limit=1e3", "?limit=99999"):
        with pytest.raises(UsageError, match="must be a number from"):
            numbers(query)


def test_one_client_at_a_time(notes: HttpClient) -> None:
    notes.post_json(f"{NOTES}/lease", {"client": "laptop", "take_over": False})
    lease = status(notes).lease
    assert lease is not None
    assert lease.client == "laptop"
    assert 0 < lease.seconds <= 60
    assert submit(notes, 1) == [1]
    with pytest.raises(ConflictError, match="held by client laptop"):
        submit(notes, 2, client="phone")
    with pytest.raises(ConflictError):
        notes.post_json(f"{NOTES}/lease", {"client": "phone", "take_over": False})
    notes.post_json(f"{NOTES}/lease", {"client": "phone", "take_over": True})
    assert submit(notes, 2, client="phone") == [2]
    notes.delete(f"{NOTES}/lease/laptop")
    with pytest.raises(ConflictError):
        submit(notes, 3)
    notes.delete(f"{NOTES}/lease/phone")
    assert submit(notes, 3) == [3]


def test_errors_keep_their_types(notes: HttpClient, bench: Bench) -> None:
    calls: list[tuple[type[AnyError], str, str, Any]] = [
        (NotFoundError, "GET", "/v1/services/other", None),
        (NotFoundError, "GET", "/v1/nothing", None),
        (NotFoundError, "POST", "/v1/services", {"name": "other", "image": "other"}),
        (ConflictError, "POST", "/v1/services", {"name": "notes", "image": "notes"}),
        (UsageError, "POST", "/v1/services", {"name": "Not A Name", "image": "notes"}),
        (UsageError, "POST", "/v1/services", {"name": "other", "image": "../notes"}),
        (UsageError, "GET", "/v1/services/NOTES", None),
        (UsageError, "PUT", "/v1/services", None),
        (NotFoundError, "POST", f"{NOTES}/checkpoint", {"media": "/nowhere", "doubtful": "refuse"}),
        (UsageError, "POST", f"{NOTES}/lease", {"client": "A B", "take_over": False}),
    ]
    for kind, method, path, value in calls:
        with pytest.raises(kind) as caught:
            notes.request(
                method,
                path,
                body=json.dumps(value).encode() if value is not None else b"",
                headers={"Content-Type": "application/json"},
            )
        assert type(caught.value) is kind, (method, path)
    with pytest.raises(StateError, match="operation 9 follows 0"):
        submit(notes, 9)
    notes.post_json(f"{NOTES}/stop", {})
    with pytest.raises(StateError, match="not running at home"):
        submit(notes, 1)
    bench.driver.lacking = ("a CPU of 1987",)
    with pytest.raises(UnsupportedError, match="a CPU of 1987"):
        notes.post_json(f"{NOTES}/launch", {})
    bench.driver.lacking = ()
    with pytest.raises(UnavailableError, match="a CPU of 1987"):
        submit(notes, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff" * 9,
        b"[" * 50000,
        b'{"name": "x"}',
        b'{"name": 1, "image": "x"}',
        b'{"name": null, "image": []}',
        b'{"name": "x", "image": "x", "more": 1}',
        b'{"name": "x", "image": "x", "machine": []}',
        b'{"name": "x", "image": "x", "machine": {"vcpus": "2"}}',
    ],
)
def test_what_is_no_json_object_of_these_fields(api: HttpClient, body: bytes) -> None:
    with pytest.raises(UsageError, match=r"needs a JSON object with name: str, image: str"):
        api.request("POST", "/v1/services", body=body, headers={"Content-Type": "application/json"})


def test_a_machine_that_cannot_be_wished_for(api: HttpClient) -> None:
    for machine in ({"accelerator": "xen"}, {"vcpus": 17}, {"memory_mib": -1}):
        new = {"name": "x", "image": "notes", "machine": machine}
        with pytest.raises(UsageError, match="cannot have that"):
            api.post_json("/v1/services", new)


def test_status_says_first_what_the_host_can_run(notes: HttpClient, bench: Bench) -> None:
    status = notes.get_json("/v1/status")
    assert next(iter(status)) == "machines"
    assert status["machines"] == "emulates machines: KVM lacks kvm in this test"
    assert status["accelerators"] == ["tcg"]
    assert status["running"] == {"notes": "tcg"}


@pytest.mark.parametrize("body", [b"x", b"SATO" * 40, bytes(100)], ids=["x", "magic", "zeros"])
def test_what_is_no_operation(notes: HttpClient, body: bytes) -> None:
    with pytest.raises(AnyError) as caught:
        notes.post_bytes(f"{NOTES}/operations", body, headers={"X-Satchel-Client": "phone"})
    assert caught.value.wire_code == "integrity"
    assert submit(notes) == []
    assert submit(notes, 1) == [1]


def test_operations_of_nobody(notes: HttpClient) -> None:
    with pytest.raises(UsageError, match="X-Satchel-Client"):
        notes.post_bytes(f"{NOTES}/operations", operation(1).encode())
    assert status(notes).last_logged == 0


def test_digest(notes: HttpClient) -> None:
    assert len(notes.post_json(f"{NOTES}/digest", {"paths": ["/state"]})["digest"]) == 64
    wrong: tuple[object, ...] = ([1], ["/state", None], "/state", {})
    for paths in wrong:
        with pytest.raises(UsageError):
            notes.post_json(f"{NOTES}/digest", {"paths": paths})


def test_carry(notes: HttpClient, tmp_path: Path) -> None:
    Media.init(tmp_path).close()
    submit(notes, 1)
    carried = notes.post_json(f"{NOTES}/checkpoint", {"media": str(tmp_path), "doubtful": "refuse"})
    assert carried["operation"] == 1
    assert carried["media_bytes"] > 0


def test_on_a_socket_a_body_that_is_too_large_is_refused(bench: Bench) -> None:
    socket = bench.settings.run / "home.sock"
    socket.parent.mkdir()
    with (
        serve(home_app(bench.home), socket, threads=2, max_body=1 << 20),
        HttpClient(socket) as client,
    ):
        with pytest.raises(AnyError, match="413"):
            client.post_bytes(f"{NOTES}/operations", bytes(2 << 20))
        assert client.get_json("/v1/services") == []


def test_a_slow_operation_does_not_hold_up_others(notes: HttpClient) -> None:
    sender = threading.Thread(
        target=notes.post_bytes,
        args=(f"{NOTES}/operations", operation(1, "/late").encode()),
        kwargs={"headers": {"X-Satchel-Client": "laptop"}},
    )
    sender.start()
    assert notes.get_json("/v1/services")
    sender.join()
    assert status(notes).last_executed == 1
