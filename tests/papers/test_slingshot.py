# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The rebuilt evaluation: what a checkpoint consists of, what is sent, what is drawn."""

import csv
import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from flask import Flask

from chunkstore import Store
from media import Media, MediaCheckpoint, SealKeys
from papers.slingshot.figures import PARTS
from papers.slingshot.service import HOME_ONLY, Evaluation
from papers.slingshot.storage import Checkpoints
from papers.slingshot.transfers import transfer, under_way
from satchel.ids import BLOCK_SIZE
from testbed import PAPER, TODAY, Host, measure, namespaces, story, workload
from tests.chunkstore.content import noise, sparse_file
from tests.images.test_manifest import manifest
from wire import serve

ROOT = Path(__file__).resolve().parents[2]
MEMORY_SIZE = 16 << 20
MACHINE = {**manifest().machine, "memory_mib": 16}
SHARED, OWN, MEMORY = 7, 3, 5
"""Blocks of the disks that both services have, and that each alone has; of memory."""


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Checkpoints]:
    (tmp_path / "stick").mkdir()
    with Store.create(tmp_path / "home") as store, Media.init(tmp_path / "stick") as media:
        manifests = []
        for number, name in enumerate(("speech", "desktop")):
            disk = {0: noise(1, SHARED), 20 * BLOCK_SIZE: noise(10 + number, OWN)}
            disk0 = sparse_file(tmp_path / "disk", 64 * BLOCK_SIZE, disk)
            touched = {BLOCK_SIZE: noise(20 + number, MEMORY)}
            ram = sparse_file(tmp_path / "ram", MEMORY_SIZE, touched)
            volumes = {"disk0": store.import_file(disk0), "ram": store.import_file(ram)}
            device = store.import_bytes(b"devices")
            made = dataclasses.replace(
                manifest(), machine=MACHINE, service=name, device_state=device, volumes=volumes
            )
            manifests.append(made)
            media.add(store, store.reachable(made.roots()))
            media.put_checkpoint(name, made.id, made.to_bytes(), b"signature")
        named = [MediaCheckpoint(made.service, made.id, (), whole=False) for made in manifests]
        media.commit(named, [root for made in manifests for root in made.roots()])
    stick, services = tmp_path / "stick", ("speech", "desktop")
    with Checkpoints(stick, SealKeys(), services, tmp_path / "copy") as found:
        yield found


def test_a_checkpoint_is_told_apart_and_overlaps(copy: Checkpoints) -> None:
    for service in copy.manifests:
        volatile, persistent = copy.volatile(service), copy.persistent(service)
        assert volatile.size == MEMORY_SIZE + len(b"devices")
        assert persistent.size == 64 * BLOCK_SIZE
        assert persistent.stored > (SHARED + OWN) * BLOCK_SIZE
        assert volatile.stored > MEMORY * BLOCK_SIZE
        assert MEMORY * BLOCK_SIZE < volatile.compressed < 2 * volatile.stored
        assert copy.whole(service) == volatile + persistent
    alone, together = copy.overlap(disks=True)
    assert alone - together == SHARED * BLOCK_SIZE
    with_memory = copy.overlap(disks=False)
    assert with_memory[0] - with_memory[1] == SHARED * BLOCK_SIZE
    assert with_memory[0] - alone >= 2 * MEMORY * BLOCK_SIZE


@pytest.mark.parametrize("there", [False, True])
def test_a_surrogate_is_given_all_of_one_service(
    copy: Checkpoints, tmp_path: Path, *, there: bool
) -> None:
    place = tmp_path / "surrogate" / "store"
    if there:
        place.parent.mkdir()
        Store.create(place).close()
    copy.give("desktop", place)
    with Store.open(place) as store:
        assert not store.missing(*copy.manifests["desktop"].roots())
        assert store.missing(*copy.manifests["speech"].roots())


def test_what_would_take_too_long_is_sent_in_part_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "goodput", lambda sender, receiver, size: 8000.0)
    host = cast(Host, None)
    whole = transfer(host, host, 1000, nominal=8000.0, patience=1.0)
    assert (whole.seconds, whole.how) == (1.0, "all sent")
    part = transfer(host, host, 1001, nominal=8000.0, patience=1.0)
    assert part.seconds == 1.001
    assert part.sent == 200
    assert part.how.startswith("NOT all sent")


def test_transfers_of_two_services_go_on_at_once_each_over_links_of_its_own() -> None:
    sizes = {"speech": 400_000, "desktop": 200_000}
    with under_way(TODAY, sizes, math.inf) as sent:
        for service, eager in sent.items():
            near, far = eager.near.result(timeout=60), eager.far.result(timeout=60)
            assert (near.sent, far.sent) == (near.size, far.size) == (sizes[service],) * 2
            assert far.seconds >= far.size * 8 / TODAY.home_up > near.seconds / 20


def test_an_eager_transfer_over_the_wifi_does_not_pass_a_hotspots_uplink() -> None:
    """The client is where the surrogate is: elsewhere it would take seven times as long."""
    with under_way(PAPER, {"speech": 400_000}, math.inf) as sent:
        near = sent["speech"].near.result(timeout=60)
    assert near.seconds < near.size * 8 / PAPER.hotspot / 2


def test_a_transfer_that_nobody_waits_for_is_cut_off() -> None:
    with under_way(PAPER, {"speech": 1 << 30}, math.inf) as sent:
        assert not sent["speech"].near.done()
        assert _namespaces_of_mine()
    assert not _namespaces_of_mine()
    assert not sent["speech"].far.done()


def _namespaces_of_mine() -> list[str]:
    mark = namespaces.new_prefix().rpartition(".")[0]
    return [path.name for path in namespaces.FOLDER.iterdir() if path.name.startswith(mark)]


def test_a_figure_has_the_modes_of_the_paper_each_from_its_first_operation(tmp_path: Path) -> None:
    header = "iteration,operation,seconds,leader,mode,clock"
    rows = [f"{n},edit,2.0,home,{HOME_ONLY},1" for n in (1, 2)]
    rows += [f"{n},edit,1.0,a,{story.WITH},1" for n in (3, 4)]
    rows += [f"{n},edit,2.0,home,{story.WITHOUT},1" for n in (5, 6, 7)]
    (tmp_path / "desktop.csv").write_text("\n".join([header, *rows]) + "\n")
    bed = SimpleNamespace(topology=SimpleNamespace(profile=PAPER))
    play: Any = SimpleNamespace(out=tmp_path, bed=bed)
    picture = Evaluation(play, "desktop", 2).draw()
    assert picture.read_bytes().startswith(b"\x89PNG")
    with picture.with_suffix(".csv").open(newline="") as file:
        drawn = [(row["mode"], row["iteration"]) for row in csv.DictReader(file)]
    assert drawn == [(story.WITH, n) for n in "12"] + [(story.WITHOUT, n) for n in "123"]


def test_an_edit_takes_what_the_session_took_for_it(
    monkeypatch: pytest.MonkeyPatch, short_path: Path
) -> None:
    counts = {"home": 1, "a": 0}
    seconds = [3.0]

    def edit(port: int, think: float) -> None:
        assert (port, think) == (5901, 0.0)
        counts["a"] += 2
        counts["home"] += 1
        seconds[0] += 1.5

    app = Flask("session")
    app.get("/v1/tally")(
        lambda: {"under_way": 0, "answered_seconds": seconds[0], "first_responses": counts}
    )
    monkeypatch.setattr(workload, "edit", edit)
    monkeypatch.setattr(workload, "QUIET_SECONDS", 0.0)
    with serve(app, short_path / "s", threads=2, max_body=1 << 10):
        done = workload.edits("vnc://127.0.0.1:5901", short_path / "s")
        assert [next(done), next(done)] == [workload.TimedOperation("edit", 1.5, "a")] * 2


def test_every_part_is_documented() -> None:
    page = (ROOT / "papers" / "slingshot" / "README.md").read_text()
    assert all(f"{part}`" in page for part in PARTS if not part.startswith("prediction."))
