# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate over HTTP: every error arrives as what it is, and nothing of a wrong size gets in."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from images import ContractSpec
from replay import AnswerPreview, Response, answers_in, encode_operations, responses_in
from replica import Run, encode_working_set
from satchel.errors import (
    CapacityError,
    ConflictError,
    IntegrityError,
    NotFoundError,
    SatchelError,
    StateError,
    UnsupportedError,
    UsageError,
)
from satchel.ids import BLOCK_SIZE
from surrogate.api import surrogate_app
from surrogate.metrics import HostCollector
from surrogate.operator import credentials
from surrogate.operator_api import operator_app
from surrogate.tenant_sockets import TenantSockets
from tests.needs import requires
from tests.scripted import EARLY, operation
from tests.serving import served
from tests.surrogate.conftest import EXECUTED, Site
from tests.waiting import eventually
from wire import HostStatus, HttpClient, ReplicaStatus, SourceAddress, exposition, serve

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")


@pytest.fixture
def client(site: Site) -> Iterator[HttpClient]:
    with served(surrogate_app(site.host), site.folder, peer="spot") as client:
        yield client


def as_operator(site: Site, path: str) -> bytes:
    sockets = TenantSockets(site.host)
    with served(operator_app(site.host, sockets), site.settings.run, peer="spot") as client:
        answer = client.request("GET", path, headers=credentials(site.settings.run)).body
    sockets.close()
    return answer


def test_a_replica_from_its_request_to_its_end(site: Site, client: HttpClient) -> None:
    made = ReplicaStatus.from_json(client.post_json("/v1/replicas", site.request().to_json()))
    assert made.replica == "r1"
    ready = ReplicaStatus.from_json(client.get_json("/v1/replicas/r1?wait=30"))
    assert (ready.state, ready.last_operation) == ("ready", EXECUTED)
    records = encode_operations([operation(4), operation(5)])
    answers = responses_in([client.post_bytes("/v1/replicas/r1/operations", records)])
    assert [answer.number for answer in answers] == [4, 5]
    digest = client.post_json("/v1/replicas/r1/digest", {"paths": ["/var/lib/notes"]})
    assert len(digest["digest"]) == 64
    status = json.loads(as_operator(site, "/v1/status"))
    assert [replica["last_operation"] for replica in status["replicas"]] == [5]
    assert status["forwarded"] == str(site.settings.forwarded)
    client.delete("/v1/replicas/r1")
    assert json.loads(as_operator(site, "/v1/status"))["replicas"] == []


def test_who_asks_hears_what_a_machine_would_run_under(site: Site, client: HttpClient) -> None:
    machine = dict(site.origin.manifest.machine)
    assert client.post_json("/v1/fits", machine) == {"accelerator": "tcg"}
    with pytest.raises(UsageError, match="invalid machine spec"):
        client.post_json("/v1/fits", machine | {"vcpus": 99})
    with pytest.raises(UnsupportedError, match="kvm in this test"):
        client.post_json("/v1/fits", machine | {"accelerator": "kvm", "portable": False})
    status = HostStatus.from_json(client.get_json("/v1/status"))
    assert (status.runs, status.lacking) == (("tcg",), {"kvm": "kvm in this test"})


def test_early_answers_come_to_who_asks_for_them_and_cost_nothing_twice(
    site: Site, client: HttpClient
) -> None:
    site.create(contract=ContractSpec(adapter="rfb"))
    said, asked = EARLY, operation(4, "/early")
    response = Response(asked.number, said)
    data = client.post_bytes("/v1/replicas/r1/operations?early=1", asked.encode())
    assert list(answers_in([data])) == [AnswerPreview(asked.number, said), response]
    assert data.count(said) == 1
    again = client.post_bytes("/v1/replicas/r1/operations", asked.encode())
    assert list(responses_in([again])) == [response]
    later = client.post_bytes("/v1/replicas/r1/operations", operation(5, "/early").encode())
    assert list(answers_in([later])) == [Response(operation(5).number, said)]
    with pytest.raises(StateError, match="operation 9"):
        client.post_bytes("/v1/replicas/r1/operations?early=1", operation(9).encode())


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "soon", "1e308", ""])
def test_a_senseless_wait_is_no_wait_or_a_bounded_one(
    site: Site, client: HttpClient, wait: str
) -> None:
    site.create()
    assert client.get_json(f"/v1/replicas/r1?wait={wait}")["state"] == "ready"


def test_errors_arrive_as_what_they_are(site: Site, client: HttpClient) -> None:
    site.create()
    with pytest.raises(ConflictError, match="r1 exists on spot already"):
        client.post_json("/v1/replicas", site.request().to_json())
    with pytest.raises(NotFoundError, match="no replica r2 on spot"):
        client.get_json("/v1/replicas/r2")
    with pytest.raises(NotFoundError):
        client.delete("/v1/replicas/r2")
    with pytest.raises(NotFoundError):
        client.get_json("/v1/replicas/%2e%2e%2fx")
    with pytest.raises(StateError, match="operation 7"):
        client.post_bytes("/v1/replicas/r1/operations", operation(7).encode())


def test_a_refusal_says_what_to_do(short_path: Path) -> None:
    site = Site(short_path, memory_mib=8)
    try:
        with (
            served(surrogate_app(site.host), site.folder) as client,
            pytest.raises(CapacityError) as refused,
        ):
            client.post_json("/v1/replicas", site.request().to_json())
        assert refused.value.exit_code == 7
        assert "try another surrogate" in refused.value.fix
    finally:
        site.close()


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"replica": 1}', b"\xff", b'{"a":' * 5000, b"null"]
)
def test_what_is_no_request_is_refused(client: HttpClient, body: bytes) -> None:
    with pytest.raises(IntegrityError):
        client.post_bytes("/v1/replicas", body)


@pytest.mark.parametrize("body", [b"x", b"SATO" * 100, operation(4).encode()[:-1]])
def test_what_are_no_operations_is_refused(site: Site, client: HttpClient, body: bytes) -> None:
    site.create()
    with pytest.raises(IntegrityError):
        client.post_bytes("/v1/replicas/r1/operations", body)
    assert site.host.replica("r1").replica.last == EXECUTED


@pytest.mark.parametrize("value", [None, [], {"paths": "x"}, {"path": []}])
def test_a_digest_of_nothing_is_refused(site: Site, client: HttpClient, value: object) -> None:
    site.create()
    with pytest.raises(UsageError):
        client.post_json("/v1/replicas/r1/digest", value)


def test_no_operations_give_no_responses(site: Site, client: HttpClient) -> None:
    site.create()
    assert client.post_bytes("/v1/replicas/r1/operations", b"") == b""


def test_a_body_beyond_the_limit_is_refused_unread(site: Site, short_path: Path) -> None:
    site.create()
    app = surrogate_app(site.host)
    with (
        serve(app, short_path / "api", threads=2, max_body=100_000) as server,
        HttpClient(server.path) as client,
    ):
        small = operation(4, body=b"x" * 50_000).encode()
        assert client.post_bytes("/v1/replicas/r1/operations", small)
        with pytest.raises(SatchelError, match="413"):
            client.post_bytes(
                "/v1/replicas/r1/operations", operation(5, body=b"x" * 100_000).encode()
            )
    assert site.host.replica("r1").replica.last == 4


def test_a_failed_machine_is_told_to_the_next_who_asks(site: Site, client: HttpClient) -> None:
    site.create()
    site.driver.machines[0].crash("out of power")
    status = ReplicaStatus.from_json(client.get_json("/v1/replicas/r1"))
    assert status.state == "failed"
    assert status.error is not None
    assert "out of power" in status.error.why
    with pytest.raises(SatchelError):
        client.post_bytes("/v1/replicas/r1/operations", operation(4).encode())


def test_a_replica_says_how_much_of_its_volumes_is_here(site: Site, client: HttpClient) -> None:
    site.create()
    status = ReplicaStatus.from_json(client.get_json("/v1/replicas/r1?wait=30"))
    volumes = {volume.name: volume for volume in status.volumes}
    assert set(volumes) == {"disk0", "ram"}
    for volume in volumes.values():
        parts = volume.parts
        told = sum(part.absent + part.fetching + part.present + part.dirty for part in parts)
        assert told == volume.blocks
    assert status.quiet_seconds == 0.0


def values_of(site: Site, client: HttpClient) -> dict[tuple[str, ...], float]:
    """The metrics, by name and labels."""
    text = exposition(HostCollector(site.host)).decode()
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_are_what_prometheus_reads(site: Site) -> None:
    site.create()
    site.host._cache.look()
    with served(surrogate_app(site.host), site.folder) as client:
        values = values_of(site, client)
    fetched = site.host.replica("r1").status().fetched_bytes["home"]
    assert values["satchel_fetch_bytes_total", "demand", "home"] <= fetched
    assert values["satchel_replicas", "ready"] == 1
    stalls = site.host.replica("r1").status().stalls
    assert values["satchel_stall_seconds_count",] == stalls.count > 0
    assert values["satchel_stall_seconds_bucket", "+Inf"] == stalls.count
    assert values["satchel_memory_free_bytes",] > 0
    assert values["satchel_collisions_total",] == 0
    assert values["satchel_cache_misses_total",] == site.host.status().cache.misses > 0
    assert values["satchel_cache_hits_total", "high"] == 0
    assert 0 < values["satchel_cache_size_bytes",] < values["satchel_cache_limit_bytes",]


def test_what_foresight_was_worth_is_told_also_of_replicas_that_have_ended(
    site: Site, client: HttpClient
) -> None:
    far = Run("ram", 2000, 16)  # from what the machine itself reads
    blob = encode_working_set([[far]], lambda run: bytes(run.count * BLOCK_SIZE))
    hosted = site.create(working_set=site.origin.store.import_bytes(blob))
    names = [(f"satchel_{name}_blocks_total",) for name in ("touched", "foreseen", "used")]
    assert eventually(lambda: values_of(site, client)[names[1]] >= 16)
    (volume,) = (volume for volume in hosted.volumes if volume.name == "ram")
    volume.map.touch(far.first, 12)
    before = values_of(site, client)
    assert before[names[0]] >= before[names[2]] >= 12
    site.host.remove("r1")
    after = values_of(site, client)
    assert all(after[name] >= before[name] for name in names)


def test_a_clients_names_make_no_series(site: Site, client: HttpClient) -> None:
    odd = site.forward("odd")
    request = dataclasses.replace(site.request(), sources=(SourceAddress("odd", str(odd.path)),))
    site.host.create(request).wait_started(30.0)
    text = exposition(HostCollector(site.host)).decode()
    assert 'source="odd"' not in text
    assert 'source="other"' in text
    site.host.remove("r1")
    odd.close()
