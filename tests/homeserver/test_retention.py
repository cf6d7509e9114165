# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home forget` and `prune`: over versions of volumes and checkpoints of services."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chunkstore import Catalog, NameNotFound, Store
from satchel.errors import UsageError
from satchel.retention import RetentionPolicy
from tests.chunkstore.content import noise
from tests.homeserver.conftest import Bench
from tests.homeserver.program import Program
from tests.homeserver.test_carry import run
from tests.needs import requires

NEEDS = requires("nbdkit", "nbdfuse", "fuse", "ssh-keygen")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A store with ten daily versions of one volume, and one of another."""
    made = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "store"), TZ="UTC")
    made.json("init")
    with Store.open(tmp_path / "store") as store:
        catalog = Catalog(store)
        for day in range(10):
            moment = datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(days=day)
            catalog.add("disk", store.import_bytes(noise(day, 20)), created=moment)
        catalog.add("other", store.import_bytes(noise(99, 20)))
    return made


def test_a_policy_over_the_versions_of_a_volume(program: Program) -> None:
    told = program.json("forget", "--keep-daily", 3, "--keep-weekly", 2, "--dry-run")
    assert len(program.json("ls", "--all")) == 11
    done = program.json("forget", "--keep-daily", 3, "--keep-weekly", 2)
    assert done == told
    assert [row["created"][:10] for row in done["kept"] if row["name"] == "disk"] == [
        "2026-03-10",
        "2026-03-09",
        "2026-03-08",
    ]
    assert len(done["forgotten"]) == 7
    assert {row["name"] for row in program.json("ls", "--all")} == {"disk", "other"}
    foretold = program.json("prune", "--dry-run")
    pruned = program.json("prune")
    assert (foretold["removed"], foretold["kept"]) == (pruned["removed"], pruned["kept"])
    assert pruned["removed"] == 7 * 21
    assert program.json("verify")["ok"]


def test_one_name_one_version_and_what_is_not_there(program: Program) -> None:
    assert len(program.json("forget", "other", "--keep-last", 1)["forgotten"]) == 0
    version = program.json("ls", "--all")[0]["version"]
    gone = program.json("forget", f"disk@{version}", "--prune")
    assert gone["pruned"]["removed"] == 21
    assert program.fails(3, "forget", f"disk@{version}")["code"] == "not-found"
    assert program.fails(3, "forget", "nothing", "--keep-last", 1)["code"] == "not-found"
    assert program.fails(2, "forget")["code"] == "usage"
    nothing = program.fails(2, "forget", "other", "--keep-last", 0)
    assert "would forget everything" in nothing["why"]
    assert program.fails(2, "forget", "--keep-daily", -2)["code"] == "usage"
    assert len(program.json("ls", "--all")) == 10


def test_a_volume_that_is_named_twice_goes_once(program: Program) -> None:
    (version,) = (r["version"] for r in program.json("ls") if r["name"] == "other")
    labels = ("other", f"other@{version}", "disk", "other")
    told = program.json("forget", *labels, "--dry-run")
    gone = program.json("forget", *labels)
    assert gone == told
    assert [row["name"] for row in gone["forgotten"]] == ["other"] + ["disk"] * 10
    assert program.json("ls", "--all") == []


@NEEDS
def test_a_policy_over_the_checkpoints_of_a_service(bench: Bench) -> None:
    bench.reopen(keep_checkpoints=9)
    service = bench.running()
    for number in range(1, 4):
        run(service, number, number)
        service.checkpoint()
    told = bench.home.forget([], RetentionPolicy(last=2), dry_run=True)
    assert len(service.shelf.ids()) == 4
    done = bench.home.forget([], RetentionPolicy(last=2))
    assert done == told
    assert [(v.kind, v.kept) for v in done] == [("service", ("last",))] * 2 + [("service", ())] * 2
    assert len(service.shelf.ids()) == 2
    with pytest.raises(UsageError, match="would forget everything"):
        bench.home.forget([], RetentionPolicy())
    with pytest.raises(NameNotFound):
        bench.home.forget(["nothing"], RetentionPolicy(last=1))
    before = service.replica().digest(["/state"])
    assert bench.home.prune()["removed"] > 0
    service.stop()
    service.launch()
    service.replayed.wait_executed(service.last_logged)
    assert service.replica().digest(["/state"]) == before


@NEEDS
def test_settings_keep_more_than_the_newest(bench: Bench) -> None:
    bench.reopen(keep_checkpoints=1, keep_yearly=2)
    service = bench.running()
    for number in range(1, 4):
        run(service, number, number)
        service.checkpoint()
    assert len(service.shelf.ids()) == 1
    assert bench.settings.policy == RetentionPolicy(last=1, yearly=2)


@NEEDS
def test_a_prune_while_checkpoints_are_taken(bench: Bench) -> None:
    """Home's own, with a machine that runs: each checkpoint can be resumed from afterwards."""
    service = bench.running()
    over = threading.Event()
    errors: list[BaseException] = []

    def prune() -> None:
        try:
            while not over.is_set():
                bench.home.prune()
        except BaseException as error:
            errors.append(error)

    pruner = threading.Thread(target=prune)
    pruner.start()
    for number in range(1, 9):
        run(service, number, number)
        service.checkpoint()
    over.set()
    pruner.join()
    assert errors == []
    before = service.replica().digest(["/state"])
    service.stop()
    service.launch()
    assert service.replica().digest(["/state"]) == before
    manifest = service.shelf.latest()
    assert manifest is not None
    assert bench.home.store.missing(*manifest.roots()) == b""
