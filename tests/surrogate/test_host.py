# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who is admitted, what a replica costs its host, and that nothing is left of it."""

import dataclasses
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chunkstore import BlockState, StoreLocked
from guestshares import SharesUnserved
from hypervisor import MachineUnsupported
from replica import (
    Access,
    Profile,
    ReplicaState,
    Run,
    WrongReplicaState,
    encode_profile,
    encode_working_set,
    first_of,
    observed,
)
from replica.folder import OWNER
from satchel.errors import (
    ConflictError,
    NotFoundError,
    StateError,
    UnsupportedError,
)
from satchel.ids import BLOCK_SIZE
from surrogate import Host
from surrogate.fetching import UncachedReader, fetcher
from surrogate.host import UNWANTED_KEPT, NotAdmitted, NotWanted
from surrogate.replicas.hosted import REQUEST
from surrogate.tenants.replica_request import NotForwarded
from tests.needs import requires
from tests.scripted import body, operation
from tests.surrogate.conftest import EXECUTED, Site
from tests.surrogate.sources import flipped
from tests.waiting import eventually
from wire import EdgeShare, Priority, SourceAddress, requested_priority

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse")


def test_a_replica_is_resumed_lazily_and_goes_on_where_it_was(site: Site) -> None:
    hosted = site.create()
    status = hosted.status()
    assert (status.state, status.last_operation) == ("ready", EXECUTED)
    assert status.started_seconds is not None
    assert status.first_response_seconds is None
    answers = list(hosted.answer([operation(n) for n in range(EXECUTED, EXECUTED + 3)]))
    assert [answer.number for answer in answers] == [3, 4, 5]
    assert body(answers[-1].payload).startswith("5 ")
    status = hosted.status()
    assert status.last_operation == 5
    assert status.first_response_bytes == {"home": status.fetched_bytes["home"]}
    assert status.fetched_bytes["home"] > 0
    assert status.faults == {}


def test_what_nobody_can_go_on_with_is_cleared(short_path: Path) -> None:
    """A request that is none, and one whose machine is gone."""
    left = short_path / "run" / "r"
    site = Site(short_path)
    try:
        whole = site.request().to_bytes()
        for name, request in (("a", b"{"), ("b", whole[:-1]), ("c", whole)):
            (left / name).mkdir(parents=True)
            (left / name / OWNER).touch()
            (left / name / REQUEST).write_bytes(request)
        site.host.close()
        site.host = Host(site.settings, site.driver)
        assert site.left() == []
        assert site.host.replicas() == []
        assert site.create("r9").status().state == "ready"
    finally:
        site.close()


def test_who_waits_for_what_is_streamed_stands_still_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the memory is in the working set, so no miss is fetched for itself."""
    store, ram = site.origin.store, site.origin.manifest.volumes["ram"]
    blob = encode_working_set(
        [[Run("ram", 0, ram.blocks)]],
        lambda run: store.read(ram, run.first * BLOCK_SIZE, run.count * BLOCK_SIZE),
    )
    fetch, resolve, missed = site.source.fetch, UncachedReader.resolve, threading.Event()

    def late(refs: bytes) -> bytes:
        if requested_priority() is Priority.PREFETCH:
            missed.wait(30.0)
        return fetch(refs)

    def miss(self: UncachedReader, *asked: Any) -> bytes | None:
        missed.set()
        return resolve(self, *asked)

    monkeypatch.setattr(site.source, "fetch", late)
    monkeypatch.setattr(UncachedReader, "resolve", miss)
    stalls = site.create(working_set=store.import_bytes(blob)).status().stalls
    assert stalls.count > 0
    assert stalls.seconds >= stalls.longest > 0


def readahead_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "readahead"]


def test_a_profile_brings_what_a_first_operation_will_touch(site: Site) -> None:
    # Far from what the machine is resumed with, or it would lead there.
    accesses = [Access(1e9, first_of("POST /"), "ram", block) for block in (1607, 2000, 1603)]
    blob = encode_profile(observed(Profile(), accesses, 1e9))
    hosted = site.create(profile=site.origin.store.import_bytes(blob))
    assert eventually(readahead_threads)
    (volume,) = (volume for volume in hosted._volumes if volume.name == "ram")
    assert volume.map.entry(2000).state is BlockState.ABSENT
    list(hosted.answer([operation(4)]))
    assert eventually(lambda: volume.map.entry(2000).state is not BlockState.ABSENT)
    site.host.remove("r1")
    assert eventually(lambda: not readahead_threads())


def test_a_profile_that_is_none_is_said_and_does_no_harm(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    hosted = site.create(profile=site.origin.store.import_bytes(b"SATP\x63" + bytes(99)))
    assert eventually(lambda: "its version is 99" in caplog.text)
    assert next(hosted.answer([operation(4)])).number == 4


def test_operations_are_executed_once_however_often_they_are_sent(site: Site) -> None:
    hosted = site.create()
    first = list(hosted.answer([operation(4), operation(5)]))
    again = list(hosted.answer([operation(3), operation(4), operation(5)]))
    assert [answer.number for answer in again] == [5]
    assert again[0].payload == first[1].payload
    with pytest.raises(StateError, match="7"):
        list(hosted.answer([operation(7)]))
    assert next(hosted.answer([operation(6)])).number == 6


def test_a_replica_is_asked_nothing_before_it_is_ready(site: Site) -> None:
    site.source.silent = threading.Event()
    hosted = site.host.create(site.request())
    with pytest.raises(WrongReplicaState, match="starting"):
        list(hosted.answer([operation(4)]))
    assert hosted.status().state == "starting"
    site.source.silent.set()
    hosted.wait_started(30)
    assert hosted.status().state == "ready"


def test_the_memory_of_the_host_is_a_limit(short_path: Path) -> None:
    site = Site(short_path, memory_mib=40)
    try:
        site.create("r1")
        site.create("r2")
        assert site.host.status().memory.free == 8 << 20
        with pytest.raises(NotAdmitted, match="no memory for a machine of 16 MiB: 32 of 40 MiB"):
            site.host.create(site.request("r3"))
        site.host.remove("r1")
        assert site.create("r3").status().state == "ready"
    finally:
        site.close()


def test_a_replica_that_failed_takes_no_memory(short_path: Path) -> None:
    site = Site(short_path, memory_mib=16)
    try:
        hosted = site.create("r1")
        site.driver.machines[0].crash("the power went out")
        status = hosted.status()
        assert status.state == "failed"
        assert status.error is not None
        assert "the power went out" in status.error.why
        assert site.create("r2").status().state == "ready"
    finally:
        site.close()


def test_a_host_without_disk_admits_nobody(short_path: Path) -> None:
    site = Site(short_path, disk_mib=1 << 40)
    try:
        with pytest.raises(NotAdmitted, match="no disk for another machine"):
            site.host.create(site.request())
        assert site.host.status().disk.free == 0
    finally:
        site.close()


def test_a_volume_larger_than_the_operator_allows_is_not_admitted(site: Site) -> None:
    request = site.request()
    size = request.manifest["volumes"]["disk0"]["size"]
    assert size < 64 << 30
    request.manifest["volumes"]["disk0"]["size"] = (64 << 30) + 4096
    with pytest.raises(NotAdmitted, match="max-volume-gib"):
        site.host.create(request)
    assert site.host.replicas() == []


def test_a_machine_that_fills_its_disks_is_ended_and_no_other(short_path: Path) -> None:
    site = Site(short_path, overlay_mib=1)
    try:
        full, other = site.create("r1"), site.create("r2")
        (overlay,) = (one.overlay for one in full.volumes if one.name == "disk0")
        with overlay.open("r+b") as file:
            file.write(os.urandom(1 << 19))
        assert full.written <= 1 << 20
        with overlay.open("r+b") as file:
            file.write(os.urandom((1 << 20) + 8192))
        assert eventually(lambda: site.host.replicas() == [other])
        assert other.status().state == "ready"
    finally:
        site.close()


def test_a_full_disk_is_first_of_all_emptied_of_the_cache(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = site.host.store.put(os.urandom(4096))
    monkeypatch.setattr("surrogate.host._free_mib", lambda folder: 0)
    with pytest.raises(NotAdmitted):
        site.host.create(site.request())
    assert site.host.store.has(refs) == [False]


def test_an_id_is_taken_once(site: Site) -> None:
    site.create()
    with pytest.raises(ConflictError, match="r1 exists on spot already"):
        site.host.create(site.request())


def test_emulation_is_refused_unless_the_operator_allows_it(short_path: Path) -> None:
    site = Site(short_path, allow_emulation=False)
    try:
        with pytest.raises(UnsupportedError, match=r"lacks kvm in this test.*allow-emulation"):
            site.host.create(site.request())
        assert site.host.replicas() == []
        assert "strangers' may not be emulated here: it runs none" in site.host.says()
    finally:
        site.close()


def test_a_surrogate_as_it_comes_runs_under_kvm_what_was_emulated(short_path: Path) -> None:
    """And refuses what is not portable, with the reason."""
    site = Site(short_path, allow_emulation=False)
    site.driver.accelerators = ("kvm", "tcg")
    try:
        assert site.create().status().state == "ready"
        assert site.host.replica("r1").replica.spec.accelerator == "kvm"
        assert site.host.status().runs == ("kvm",)
        fixed = dict(site.origin.manifest.machine) | {"portable": False}
        with pytest.raises(UnsupportedError, match="not portable, and was emulated"):
            site.host.create(site.request("r2", machine=fixed))
    finally:
        site.close()


def test_a_machine_of_kvm_that_is_not_portable_is_for_a_host_with_kvm(site: Site) -> None:
    fixed = dict(site.origin.manifest.machine) | {"portable": False, "accelerator": "kvm"}
    with pytest.raises(MachineUnsupported, match=r"kvm in this test.*runs it under KVM"):
        site.host.create(site.request(machine=fixed))


def test_a_machine_with_shares_is_refused_and_said_to_be_for_home(site: Site) -> None:
    shared = dict(site.origin.manifest.machine) | {"shares": True}
    with pytest.raises(SharesUnserved, match="use it at home"):
        site.host.create(site.request(machine=shared))
    assert site.host.replicas() == []


def test_a_way_to_the_owners_files_is_a_forwarded_socket(site: Site) -> None:
    elsewhere = SourceAddress("calls", "/run/dbus/system_bus_socket")
    with pytest.raises(NotForwarded):
        site.host.create(dataclasses.replace(site.request(), calls=elsewhere))
    assert site.host.replicas() == []


def test_the_folder_of_a_tenant_of_an_earlier_version_is_kept(site: Site) -> None:
    """It had 48 bits of the identity's SHA-256 for a name."""
    for name in ("4f1ab585fb20", "0123456789ab"):
        (site.settings.forwarded / name).mkdir()
        (site.settings.forwarded / name / "offered").touch()
    tenant = site.host.tenants.admit("SHA256:anna")
    site.host.tenants.drop_short()
    assert [path.name for path in tenant.forwarded.iterdir()] == ["offered"]
    assert [path for path in site.settings.forwarded.iterdir() if path.is_dir()] == [
        tenant.forwarded
    ]


def test_a_way_to_a_granted_share_is_two_forwarded_sockets(site: Site) -> None:
    forwarded = site.host.settings.forwarded / "here"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(forwarded))
        here = SourceAddress("here", str(forwarded))
        elsewhere = SourceAddress("edge", "/run/dbus/system_bus_socket")
        for node, calls in ((elsewhere, here), (here, elsewhere)):
            edge = EdgeShare("papers", writable=True, log="async", node=node, calls=calls)
            with pytest.raises(NotForwarded):
                site.host.create(dataclasses.replace(site.request(), calls=here, edge=edge))
    assert site.host.replicas() == []


def test_a_machine_that_this_host_cannot_run_is_refused_and_the_lack_is_named(site: Site) -> None:
    site.driver.lacking = ("machine type pc-q35-99.0",)
    with pytest.raises(MachineUnsupported, match="pc-q35-99"):
        site.host.create(site.request())


def sources(site: Site) -> dict[str, str]:
    """Paths that are no forwarded sockets, by what they are."""
    forwarded = site.settings.forwarded
    (forwarded / "file").write_text("")
    (forwarded / "folder").mkdir()
    (forwarded / "out").symlink_to(site.folder / "elsewhere")
    elsewhere = socket.socket(socket.AF_UNIX)
    elsewhere.bind(str(site.folder / "elsewhere"))
    elsewhere.close()
    return {
        "file": str(forwarded / "file"),
        "folder": str(forwarded / "folder"),
        "link": str(forwarded / "out"),
        "other": str(site.folder / "elsewhere"),
        "upwards": str(forwarded / ".." / ".." / "elsewhere"),
        "missing": str(forwarded / "nothing"),
        "system": "/run/docker.sock",
    }


def test_a_source_must_be_a_socket_that_was_forwarded(site: Site) -> None:
    for path in sources(site).values():
        request = dataclasses.replace(site.request(), sources=(SourceAddress("home", path),))
        with pytest.raises(NotForwarded, match="is not a forwarded socket"):
            site.host.create(request)
    assert site.host.replicas() == []


def test_chunks_that_are_damaged_on_the_way_never_reach_the_guest(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "PATIENCE_SECONDS", 1.0)
    site.source.spoil = flipped
    hosted = site.create()
    status = hosted.status()
    assert status.state == "failed"
    assert status.faults["home"] > 0
    assert site.left() == []


def test_a_second_source_makes_good_what_the_first_one_spoils(site: Site) -> None:
    good = site.forward("good")
    site.source.fetch = _spoil_every_other(site)  # type: ignore[method-assign]
    addresses = (
        SourceAddress("media", str(site.server.path)),
        SourceAddress("home", str(good.path)),
    )
    hosted = site.host.create(dataclasses.replace(site.request(), sources=addresses))
    hosted.wait_started(30)
    assert hosted.status().state == "ready"
    assert hosted.status().faults
    site.host.remove("r1")
    good.close()


def _spoil_every_other(site: Site) -> Callable[..., bytes]:
    calls = iter(range(10**6))

    def fetched(refs: bytes, *rest: object) -> bytes:
        records = site.origin.store.records(refs)
        return flipped(records) if next(calls) % 2 == 0 else records

    return fetched


def test_remove_leaves_nothing_and_the_id_is_free_again(site: Site) -> None:
    site.create()
    assert len(site.left()) == 1
    site.host.remove("r1")
    assert site.left() == []
    assert site.create().status().state == "ready"
    site.host.remove("r1")
    with pytest.raises(NotFoundError, match="no replica r1 on spot"):
        site.host.remove("r1")


def test_a_replica_that_is_removed_before_it_is_asked_for_is_not_begun(site: Site) -> None:
    """A client that gives up sends both requests at once, over connections of their own."""
    with pytest.raises(NotFoundError):
        site.host.remove("r1")
    with pytest.raises(NotWanted, match="it was ended"):
        site.host.create(site.request("r1"))
    assert site.host.replicas() == []
    for number in range(UNWANTED_KEPT):
        with pytest.raises(NotFoundError):
            site.host.remove(f"other-{number}")
    site.create("r1")


def test_a_replica_may_be_removed_by_several_at_once(site: Site) -> None:
    site.create()
    errors: list[Exception] = []

    def remove() -> None:
        try:
            site.host.remove("r1")
        except NotFoundError:
            pass
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=remove) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert site.host.replicas() == []


def test_a_replica_is_removed_while_a_silent_source_holds_it_up(site: Site) -> None:
    site.source.silent = threading.Event()
    site.host.create(site.request())
    assert eventually(lambda: site.source.asked)
    began = time.monotonic()
    site.host.remove("r1")
    assert time.monotonic() - began < 25, "the source is silent for 30 s"
    assert site.left() == []
    site.source.silent.set()


def test_an_idle_replica_is_ended_and_one_that_is_asked_is_not(short_path: Path) -> None:
    site = Site(short_path, idle_minutes=10)
    try:
        hosted = site.create()
        hosted.touch()
        site.host._end_idle()
        assert site.host.replicas() == [hosted]
        hosted._heard -= 600
        site.host._end_idle()
        assert site.host.replicas() == []
        assert hosted.replica.state is ReplicaState.STOPPED
        assert site.left() == []
    finally:
        site.close()


def test_sockets_that_sshd_left_are_removed_and_living_ones_stay(site: Site) -> None:
    left = site.settings.forwarded / "left"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(left))
    (site.settings.forwarded / "file").write_text("")
    site.host.tenants.clear_forwarded()
    assert sorted(path.name for path in site.settings.forwarded.iterdir()) == ["file", "home"]


def test_close_ends_every_replica_and_admits_nobody_more(short_path: Path) -> None:
    site = Site(short_path)
    try:
        replicas = [site.create(f"r{n}") for n in range(3)]
        site.host.close()
        assert {hosted.replica.state for hosted in replicas} == {ReplicaState.STOPPED}
        assert site.left() == []
        with pytest.raises(StateError, match="being stopped"):
            site.host.create(site.request("r9"))
    finally:
        site.server.close()
        site.origin.store.close()


def test_a_data_folder_has_one_host(site: Site) -> None:
    with pytest.raises(StoreLocked):
        Host(site.settings, site.driver)


def test_what_a_killed_host_left_is_ended_by_the_next_one(short_path: Path) -> None:
    folder = short_path / "run" / "r" / "abc"
    folder.mkdir(parents=True)
    (folder / "owner").touch()
    left = subprocess.Popen(["bash", "-c", f"exec -a {folder}/nbdkit sleep 60"])
    (folder / "nbdkit.pid").write_text(str(left.pid))
    assert eventually(lambda: str(folder).encode() in _command(left.pid))
    site = Site(short_path)
    try:
        assert left.wait(60) < 0
        assert site.left() == []
        assert site.create().status().state == "ready"
    finally:
        site.close()


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_host_is_named_after_its_machine(short_path: Path) -> None:
    site = Site(short_path, name="")
    try:
        assert site.host.status().name == site.host.name
    finally:
        site.close()


def test_many_tenants_come_and_go_and_no_thread_or_descriptor_stays(site: Site) -> None:
    site.create("warm")
    site.host.remove("warm")
    before = (_descriptors(), threading.active_count())
    for number in range(3):
        list(site.create(f"r{number}").answer([operation(4)]))
        site.host.remove(f"r{number}")
    assert eventually(lambda: threading.active_count() <= before[1])
    assert _descriptors() <= before[0] + 1


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
