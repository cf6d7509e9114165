# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Somebody else at the same surrogate, admitted there with another identity."""

import json
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chunkstore import FANOUT, PageRange, encode_places, references_below
from satchel.errors import AccessError, NotFoundError, SatchelError, UsageError
from satchel.ids import ChunkRef, ReplicaId
from surrogate.metrics import HostCollector
from surrogate.operator import credentials
from surrogate.replicas.hosted import HostedReplica
from tests.client.world import LAPTOP, SpotPlace, World, post
from wire import ChunkClient, CreateReplica, HttpClient, metrics_app, serve

MALLORY = "SHA256:mallory/s+key="


@pytest.fixture
def spot(carried: World) -> Iterator[SpotPlace]:
    """A surrogate on which somebody's replica runs, also when the attack is over."""
    runner = carried.runner()
    runner.move("a")
    url = carried.proxy(runner)
    assert post(url).status_code == 200
    yield carried.spots["a"]
    assert len(carried.spots["a"].replicas()) == 1
    assert post(url).status_code == 200


@pytest.fixture
def other(spot: SpotPlace) -> Iterator[HttpClient]:
    """At the socket of another tenant."""
    with HttpClient(spot.door(MALLORY)) as client:
        yield client


def test_gets_no_folder_of_another_by_an_identity_that_was_searched_for(spot: SpotPlace) -> None:
    """These two have the same first 48 bits of SHA-256, found in a minute."""
    victim, mallory = (
        spot.host.tenants.admit(f"SHA256:mallory{number}") for number in (18215635, 38216425)
    )
    assert victim.forwarded != mallory.forwarded
    lent = victim.forwarded / "0011"
    lent.touch()
    assert [*mallory.forwarded.iterdir()] == []
    lent.unlink()


def test_lists_nothing_and_counts_nothing(spot: SpotPlace, other: HttpClient) -> None:
    (replica,) = spot.replicas()
    told = other.get_json("/v1/status")
    assert told["replicas"] == []
    assert told["cache"]["size"] == 0
    assert replica not in str(told)
    for path in ("/metrics", "/v1/tenants"):
        with pytest.raises(NotFoundError):
            other.request("GET", path, headers=credentials(spot.host.settings.run))


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        ("GET", ""),
        ("GET", "?wait=60"),
        ("POST", "/operations"),
        ("POST", "/reads"),
        ("POST", "/hand-over"),
        ("POST", "/go-on"),
        ("GET", "/streams"),
        ("GET", "/delta/00?offset=0&length=1"),
        ("DELETE", ""),
    ],
)
def test_knows_the_id_and_has_nothing_of_it(
    spot: SpotPlace, other: HttpClient, method: str, rest: str
) -> None:
    (replica,) = spot.replicas()
    said = []
    for name in (replica, CreateReplica.new_id("notes")):
        with pytest.raises(NotFoundError) as caught:
            other.request(method, f"/v1/replicas/{name}{rest}", body=b"")
        said.append(str(caught.value).replace(name, "R"))
    assert said[0] == said[1]


def test_knows_the_id_and_changes_nothing(spot: SpotPlace, other: HttpClient) -> None:
    (replica,) = spot.replicas()
    for rest, body in (
        ("digest", {"paths": ["/"]}),
        ("delta", {"since": {}, "hold": True}),
        ("more?go=1", {}),
    ):
        with pytest.raises((NotFoundError, UsageError)) as caught:
            other.post_json(f"/v1/replicas/{replica}/{rest}", body)
        assert isinstance(caught.value, NotFoundError) or rest == "delta"


def test_uses_no_socket_that_another_forwarded(spot: SpotPlace, other: HttpClient) -> None:
    (hosted,) = spot.host.replicas()
    theirs = hosted._request
    with pytest.raises(NotFoundError, match="is not a forwarded socket"):
        other.post_json("/v1/replicas", replace(theirs, replica=ReplicaId("mine")).to_json())
    with pytest.raises(NotFoundError, match="is not a forwarded socket"):
        other.post_json("/v1/staged", replace(theirs, replica=ReplicaId("mine")).to_json())


def blocks_of(spot: SpotPlace) -> tuple[HostedReplica, list[ChunkRef]]:
    """The victim's replica, and references of its machine that are in the cache."""
    (hosted,) = spot.host.replicas()
    roots = [*hosted.manifest.volumes.values(), hosted.manifest.device_state]
    refs = [*references_below(spot.host.store, roots)]
    found = [
        ref for ref, here in zip(refs, spot.host.store.has(b"".join(refs)), strict=True) if here
    ]
    assert found
    return hosted, found


def test_has_no_block_of_ram_or_disk_from_the_cache(spot: SpotPlace, other: HttpClient) -> None:
    hosted, refs = blocks_of(spot)
    state = hosted.manifest.device_state
    levels = next(n for n in range(8) if state.blocks <= FANOUT ** (n + 1))
    places = encode_places([PageRange(state.ref, levels, 0, 64)])
    chunks = ChunkClient(other)
    assert chunks.fetch(b"".join(refs)) == b""
    assert chunks.below(places) == b""
    with HttpClient(spot.door(LAPTOP)) as owner:
        assert len(ChunkClient(owner).fetch(b"".join(refs))) > 100 * len(refs)
        assert ChunkClient(owner).below(places)


def test_a_guessed_block_takes_as_long_as_one_that_is_not_there(
    spot: SpotPlace, other: HttpClient
) -> None:
    """An attacker who sorts by time is right about as often as one who tosses a coin."""
    _, refs = blocks_of(spot)
    chunks, draw = ChunkClient(other), random.Random(1)
    here: list[float] = []
    absent: list[float] = []
    for _ in range(400):
        for times, ref in (
            (here, draw.choice(refs)),
            (absent, ChunkRef(draw.randbytes(52))),
        ):
            began = time.perf_counter()
            assert chunks.fetch(ref) == b""
            times.append(time.perf_counter() - began)
    ranks = sorted([(t, 1) for t in here] + [(t, 0) for t in absent])
    above = sum(n for n, (_, mine) in enumerate(ranks) if mine) - len(here) * (len(here) - 1) / 2
    chance = above / (len(here) * len(absent))
    print(
        f"ratio of medians {statistics.median(here) / statistics.median(absent):.3f}, {chance:.3f}"
    )
    assert 0.38 < chance < 0.62


def test_a_banned_one_is_refused_and_its_connections_are_cut(
    spot: SpotPlace, other: HttpClient
) -> None:
    other.get_json("/v1/status")
    with HttpClient(spot.socket) as operator:
        headers = credentials(spot.host.settings.run) | {"Content-Type": "application/json"}
        body = f'{{"identity": "{MALLORY}"}}'.encode()
        operator.request("POST", "/v1/tenants/ban", body=body, headers=headers)
        with pytest.raises(SatchelError):
            other.get_json("/v1/status")
        with pytest.raises(AccessError, match="banned"):
            operator.request("POST", "/v1/tenants", body=body, headers=headers)
        operator.request("POST", "/v1/tenants/unban", body=body, headers=headers)
        answer = operator.request("POST", "/v1/tenants", body=body, headers=headers)
    with HttpClient(Path(json.loads(answer.body)["socket"])) as again:
        assert again.get_json("/v1/status")["replicas"] == []


def test_the_daemon_s_own_socket_admits_nobody_without_the_token(spot: SpotPlace) -> None:
    with HttpClient(spot.socket) as client:
        for headers in ({}, {"Authorization": "Bearer " + "0" * 64}):
            for method, path in (
                ("GET", "/v1/status"),
                ("POST", "/v1/chunks"),
                ("GET", "/v1/tenants"),
                ("POST", "/v1/tenants"),
                ("POST", "/v1/tenants/end"),
                ("POST", "/v1/tenants/ban"),
                ("POST", "/v1/tenants/unban"),
            ):
                with pytest.raises(AccessError, match="operator"):
                    client.request(method, path, headers=headers)
        (replica,) = spot.replicas()
        with pytest.raises(AccessError, match="operator"):
            client.delete(f"/v1/replicas/{replica}")


def test_the_operator_sees_all_and_metrics_at_a_socket_of_their_own(
    spot: SpotPlace, short_path: Path
) -> None:
    (replica,) = spot.replicas()
    with HttpClient(spot.socket) as client:
        headers = credentials(spot.host.settings.run)
        assert replica in client.request("GET", "/v1/status", headers=headers).body.decode()
        told = json.loads(client.request("GET", "/v1/tenants", headers=headers).body)
    (laptop,) = [tenant for tenant in told["tenants"] if tenant["identity"] == LAPTOP]
    assert laptop["replicas"] == 1
    assert laptop["memory_mib"] >= 16
    place = short_path / "metrics.sock"
    with (
        serve(metrics_app(HostCollector(spot.host)), place, threads=1, max_body=1024),
        HttpClient(place) as client,
    ):
        assert b"satchel_replicas" in client.request("GET", "/metrics").body
    assert place.name == spot.host.settings.metrics_socket.name
