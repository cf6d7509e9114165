# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The main job as a story, played on this machine: `./scripts/demo`.

A person has two services at home: `notes`, which keeps state, and `speech`, which does not. They
are checkpointed onto a stick. At hotspot A the person works with replicas on the surrogate there,
moves to hotspot B, where replicas resume from the stick, once more without the stick, goes back by
the fastest route, loses surrogate A in the middle of the work, continues with home, and returns.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from console import run_program
from images import PHRASES, speak
from media import Media, SealKeys, read_manifest
from satchel.errors import SatchelError
from satchel.ids import BLOCK_SIZE
from testbed import plot
from testbed.bed import Testbed
from testbed.built import built_image, cache_folder
from testbed.media import Stick
from testbed.recorder import Recorder
from testbed.roles import Roles
from testbed.topology import PROFILES

OPERATIONS = 30
"""Operations at hotspot A, and after each move."""

WITH = "with portable storage"
WITHOUT = "without portable storage"
PLANNED = "by the fastest route"
"""As `satchel move` chooses it; in the other modes by replay, so that they can be compared."""

RECORDINGS = 2

SERVICES = ("notes", "speech")
OPERATION_NAMES = {"notes": "operations of notes", "speech": "recognitions", "desktop": "edits"}

WARM_OPERATIONS = 3
"""Operations after a move that say how long one takes."""

MOVE_GOAL_SECONDS = 30.0
"""From the start of a move to the first response, the operation itself not counted: with the links
of 2005 and with media."""

PAUSE_SECONDS = 0.1
"""Between operations: a person is not a load generator."""

RESPONSE_SECONDS = 3600.0

LEAD_SECONDS = 20.0
"""How long a move waits for the new replica to be the first to answer."""

PATIENCE_SECONDS = 1.0
"""After that long how the replicas stand is told, if the new one is not the first to answer yet."""

WORKLOAD_LOG = "workload.log"

THINK_SECONDS = {"today": 0.2, "paper": 1.0}

EDIT_THINK_SECONDS = {"today": 2.0, "paper": 10.0}
"""After an edit of `desktop`, which is many operations; the paper's users think for ten seconds."""

FORECAST = {
    "today": "about 5 minutes once the images are built",
    "paper": "about 40 minutes: home's uplink has 256 kb/s",
}


@dataclass(frozen=True)
class Move:
    """What a move to another surrogate took, until the first response of the replica there.

    operation_seconds: what the operation itself takes once the replica is warm
    fetched: bytes by source until then; share: of the machine's stored state
    running_seconds, joined_seconds: until the machine ran, and had caught up with the operations of
    before, of which there were `replayed`
    """

    service: str
    mode: str
    first_response_seconds: float
    operation_seconds: float
    fetched: dict[str, int]
    share: float
    running_seconds: float
    joined_seconds: float
    replayed: int

    @property
    def seconds(self) -> float:
        """Without the operation itself."""
        return self.first_response_seconds - self.operation_seconds

    def facts(self, profile: str) -> dict[str, Any]:
        """For summary.json; `holds` is about MOVE_GOAL_SECONDS, null where that is no goal."""
        aimed = profile == "paper" and self.mode == WITH
        return {
            **asdict(self),
            "seconds": self.seconds,
            "goal": f"<= {MOVE_GOAL_SECONDS:g} s" if aimed else None,
            "holds": self.seconds <= MOVE_GOAL_SECONDS if aimed else None,
        }


def moves_table(moves: Sequence[Move], profile: str) -> Table:
    """The moves for people."""
    columns = (
        "move of",
        "mode",
        "first response s",
        "operation s",
        "without it s",
        "goal",
        "holds",
    )
    table = Table(*columns, "fetched MB", "share", box=None)
    for move in moves:
        facts = move.facts(profile)
        times = (move.first_response_seconds, move.operation_seconds, move.seconds)
        holds = {None: "", True: "yes", False: "NO"}[facts["holds"]]
        size = f"{sum(move.fetched.values()) / 1e6:.1f}"
        cells = [*(f"{t:.1f}" for t in times), facts["goal"] or "", holds, size]
        table.add_row(move.service, move.mode, *cells, f"{move.share:.1%}")
    return table


def standing(replicas: Sequence[Mapping[str, Any]]) -> str:
    """How replicas stand, of the rows that `satchel status --json` has of them, for people."""
    return "; ".join(_stands(row) for row in replicas)


def _stands(row: Mapping[str, Any]) -> str:
    state = row["state"] if row["state"] == "joined" else f"not joined ({row['state']})"
    parts = [f"{row['name']} {state}"]
    if (lag := row.get("lag")) is not None:
        parts.append(f"{lag} operations behind")
    if stalls := row.get("stalls"):
        parts.append(f"waited for blocks {_stalled(stalls)}")
    return ", ".join(parts)


def _stalled(stalls: Mapping[str, Any]) -> str:
    return f"{stalls['count']} times, {stalls['seconds']:.1f} s"


class Story:
    """The steps, in order; each leaves rows in the recorder."""

    def __init__(self, bed: Testbed, work: Path, out: Path, console: Console) -> None:
        self.bed = bed
        self.out = out
        self.work = work
        self.console = console
        self.recorder = Recorder(bed, console)
        self.roles = Roles(bed, work, cache_folder())
        self.stick = Stick(work / "m")  # the last that can be interrupted: close() unmounts it
        self.facts: dict[str, Any] = {"media": self.stick.kind}
        self.iterations = 0
        self._chunks: dict[str, int] = {}
        self._written = 0
        self._mark = 0
        self.moves: list[Move] = []
        self.background: subprocess.Popen[bytes] | None = None

    def play(self) -> None:
        """Play the whole story."""
        self.build()
        self.roles.start()
        self.at_home(SERVICES)
        self.at_hotspot_a()
        self.to_hotspot_b()
        self.without_media()
        self.surrogate_dies()
        self.back_home()

    def close(self) -> None:
        """End everything and remove its files."""
        self.roles.stop()
        self.stick.close()

    def build(self, services: Sequence[str] = SERVICES) -> None:
        """Build the service images and speak a recording."""
        for name in services:
            with self.recorder.step(f"build image {name}", "home") as row:
                size = built_image(name).disk.stat().st_size
                row.facts["image"] = f"{size >> 20} MiB"
        (self.work / "speech.wav").write_bytes(speak(PHRASES[0]))

    def at_home(self, services: Sequence[str]) -> None:
        """Boot services, checkpoint them onto the stick."""
        home = self.roles.home
        public = f"{self.roles.identity.path}.pub"
        home.command("media", "init", self.stick.root, "--for", public, "--json")
        for name in services:
            home.command("service", "add", name, "--json")
            with self.recorder.step(f"boot {name}", "home"):
                home.command("launch", name, "--json")
            with self.recorder.step(f"checkpoint {name} onto the stick", "home") as row:
                made = home.command("checkpoint", name, "--media", self.stick.root, "--json")
                row.facts["paused"] = f"{made['paused_seconds']:.2f} s"
                row.facts["written"] = f"{made['media_bytes'] / 1e6:.1f} MB"
                self._chunks[name] = made["chunks"]
                self._written += made["media_bytes"]
        self.facts["media_bytes"] = self._written

    def at_hotspot_a(self) -> None:
        """Thirty operations of notes, each logged on the stick before it is sent; speech."""
        self.session("notes", "a", media=True)
        self.operate("notes", OPERATIONS, "a")
        self.session("speech", "a", media=True)
        self.operate("speech", RECORDINGS, "a")

    def to_hotspot_b(self) -> None:
        """Move while working: replicas resume at B from the stick."""
        for name in SERVICES:
            self.move(name, "b", WITH)
        self.operate("notes", OPERATIONS, "b")
        self.operate("speech", RECORDINGS, "b")

    def without_media(self) -> None:
        """The same move once more, to an empty surrogate, from home over the slow link."""
        for name in ("notes", "speech"):
            self.stop(name)
        self.walk("a")
        self.roles.restart_surrogate("b", empty=True)
        for name in ("notes", "speech"):
            self.session(name, "a", media=name == "notes")
            self.move(name, "b", WITHOUT)
        self.operate("notes", OPERATIONS, "b", WITHOUT)

    def surrogate_dies(self) -> None:
        """Back at A, which has a cache by now, cut its power in the middle of operations: home's
        answers continue."""
        self.move("notes", "a", PLANNED)
        self._begin_background("notes", "surrogate lost")
        self._await_rows("notes", 5)
        with self.recorder.step("surrogate A loses power; home continues", "hotspot A") as row:
            self.roles.surrogates["a"].crash()
            self._await_rows("notes", 15)
            self._end_background()
            row.facts["leader now"] = self._last_leader("notes")
        with self.recorder.step("a new replica of notes", "surrogate B") as row:
            brought = self.roles.satchel("move", "notes", "--to", "b", "--json")
            row.facts["replayed"] = brought["replayed"]
        self.operate("notes", 5, "a", "surrogate lost")
        status = self.roles.satchel("status", "notes", "--json")
        self.facts["lost_operations"] = self.iterations - status["last_operation"]
        self.facts["divergences"] = len(status["divergences"])

    def back_home(self) -> None:
        """The log is reconciled, a new checkpoint replaces the old one on the stick."""
        for name in ("notes", "speech"):
            self.stop(name)
        with self.recorder.step("return: reconcile, checkpoint, refresh the stick", "home") as row:
            made = self.roles.home.command(
                "checkpoint", "notes", "--media", self.stick.root, "--json"
            )
            row.facts |= {
                "operation": made["operation"],
                "reconciled": made["reconciled"],
                "written": f"{made['media_bytes'] / 1e6:.1f} MB",
            }
        self.facts["on_media"] = self.roles.home.command("media", "ls", self.stick.root, "--json")

    def session(self, service: str, surrogate: str, *, media: bool) -> None:
        """Start a session of a service at the hotspot of that surrogate, with a replica there."""
        with self.recorder.step(f"run {service}", f"surrogate {surrogate.upper()}") as row:
            self.begin(service, media=media)
            brought = self.roles.satchel("move", service, "--to", surrogate, "--json")
            self._note(row.facts, brought)

    def begin(self, service: str, *, media: bool) -> None:
        """Start a session of a service with home alone."""
        where = ["--media", str(self.stick.root)] if media else []
        log = self.work / f"{service}.log"
        self.roles.start_session(service, *where, "--json", log=log)

    def move(self, service: str, surrogate: str, mode: str) -> None:
        """Join the other hotspot, bring up a replica there, while operations run.

        Adds to the facts' moves how long that took: until the replica's first response, and
        without the operation itself, for which the median of those after the move stands.
        """
        self._begin_background(service, mode)
        self._await_rows(service, 1)
        if self.bed.client.hotspot != surrogate:
            self.walk(surrogate)
        without = ["--without-media"] if mode == WITHOUT else []
        where = f"to surrogate {surrogate.upper()}, {mode}"
        began = time.time()
        ahead = self.working_set_bytes(service)
        with self.recorder.step(f"move {service}", where, expected=ahead) as row:
            route = [] if mode == PLANNED else ["--route", "replay"]
            options = [*without, *route, "--json"]
            brought = self.roles.satchel("move", service, "--to", surrogate, *options)
            self._note(row.facts, brought)
            status = self._await_response(service, surrogate)
            first = time.time() - began
            row.facts["first response after"] = f"{first:.1f} s"
            fetched = dict(status["first_response_bytes"])
            share = self._share(service, fetched)
            row.facts["fetched before it"] = f"{share:.1%} of the stored state"
            stalls = status["stalls"]
            row.facts["route"] = self._route(service)
            row.facts["waited for blocks"] = _stalled(stalls)
        with self.recorder.step(
            f"wait until surrogate {surrogate.upper()} answers first", where
        ) as row:
            if not self._await_leader(service, surrogate, PATIENCE_SECONDS):
                replicas = self.roles.satchel("status", service, "--json")["replicas"]
                row.facts[f"after {PATIENCE_SECONDS:g} s:"] = standing(replicas)
                self._await_leader(service, surrogate, LEAD_SECONDS - PATIENCE_SECONDS)
            row.facts["leader"] = self._last_leader(service)
        warm = self._warm_seconds(service)
        self._end_background()
        times = (brought["running_seconds"], brought["seconds"], brought["replayed"])
        self.moves.append(Move(service, mode, first, warm, fetched, share, *times))

    def _route(self, service: str) -> str:
        """Return the route of the last move, with its predicted and actual time."""
        moves = self.roles.satchel("plan", service, "--history", "--json")["moves"]
        if not moves:
            return "not known yet"
        made = moves[-1]
        return f"{made['route']}, predicted {made['predicted']:.1f} s, took {made['seconds']:.1f} s"

    def _warm_seconds(self, service: str) -> float:
        """The median response time of the operations that begin from now on."""
        before = len(self._rows(service)) + 1
        self._await_rows(service, before + WARM_OPERATIONS - self._mark)
        rows = self._rows(service)[before : before + WARM_OPERATIONS]
        return statistics.median(float(row.split(",")[2]) for row in rows)

    def _share(self, service: str, fetched: dict[str, int]) -> float:
        """What part of a machine's stored state was fetched.

        Both are compressed: all that came over the wire, tables too, against the chunks and tables
        of memory, disk and devices as they are stored, one by one. The working set, which is a
        copy, is no part of the state. Of two services on one stick each has the part that its
        number of chunks says: they are alike in size.
        """
        ahead = {name: self.working_set_bytes(name) for name in self._chunks}
        chunks = {name: n - ahead[name] // BLOCK_SIZE for name, n in self._chunks.items()}
        state = self._written - sum(ahead.values())
        return sum(fetched.values()) / (state * chunks[service] / sum(chunks.values()))

    @property
    def keys(self) -> SealKeys:
        """What opens the stick: the client's SSH key."""
        return SealKeys(None, [self.roles.identity.path])

    def working_set_bytes(self, service: str) -> int:
        """Of the service's checkpoint on the stick."""
        with Media.open(self.stick.root, self.keys) as media:
            newest = read_manifest(media, media.checkpoints(service)[0])
        working_set = newest.working_set
        return working_set.size if working_set else 0

    def _await_response(self, service: str, surrogate: str) -> dict[str, Any]:
        """Until a replica has answered an operation; its status then."""
        deadline = time.monotonic() + RESPONSE_SECONDS
        while time.monotonic() < deadline:
            status = self.roles.satchel("status", service, "--json")["surrogates"][surrogate]
            if status.get("first_response_bytes") is not None:
                return dict(status)
            if status.get("state") == "failed":
                what = f"the replica of {service} at {surrogate} failed"
                raise SatchelError(what, why=str(status.get("error")))
            time.sleep(0.2)
        raise SatchelError(f"the replica of {service} at {surrogate} answered nothing")

    def _await_leader(self, service: str, surrogate: str, seconds: float) -> bool:
        """Give a new replica some time to be the first to answer; home may stay faster. Whether it
        was."""
        deadline = time.monotonic() + seconds
        while self._last_leader(service) != surrogate:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        return True

    def walk(self, hotspot: str) -> None:
        """To another hotspot, with the client."""
        with self.recorder.step("walk to another hotspot", f"client to {hotspot.upper()}"):
            self.bed.client.move(hotspot)

    def _note(self, facts: dict[str, Any], brought: dict[str, Any]) -> None:
        facts["running after"] = f"{brought['running_seconds']:.1f} s"
        facts["fetched"] = ", ".join(
            f"{name} {count / 1e6:.2f} MB" for name, count in brought["fetched_bytes"].items()
        )
        facts["replayed"] = brought["replayed"]

    def operate(self, service: str, count: int, hotspot: str, mode: str = WITH) -> None:
        """Use a service so many times."""
        where = f"client at {hotspot.upper()}"
        with self.recorder.step(f"{count} {OPERATION_NAMES[service]}", where) as row:
            pause = ["--think", str(PAUSE_SECONDS)] if service == "notes" else []
            process = self._workload(service, mode, "--count", str(count), *pause)
            if process.wait() != 0:
                raise self._workload_failed()
            row.facts["leader"] = self._last_leader(service)
        self._count(service)

    def _begin_background(self, service: str, mode: str) -> None:
        self._until.unlink(missing_ok=True)
        self._mark = len(self._rows(service))
        seconds = EDIT_THINK_SECONDS if service == "desktop" else THINK_SECONDS
        think = ["--think", str(seconds[self.bed.topology.profile.name])]
        until = ["--count", "1", "--until", str(self._until)]
        self.background = self._workload(service, mode, *until, *think)

    def _end_background(self) -> None:
        assert self.background is not None
        self._until.touch()
        if self.background.wait() != 0:
            raise self._workload_failed()
        self._count("notes")

    def _await_rows(self, service: str, count: int) -> None:
        """Until the background workload has done that many operations since it began."""
        while len(self._rows(service)) < self._mark + count:
            if self.background is not None and self.background.poll() not in (None, 0):
                raise self._workload_failed()
            time.sleep(0.05)

    def _workload(self, service: str, mode: str, *options: str) -> subprocess.Popen[bytes]:
        port = self.roles.satchel("status", service, "--json")["port"]
        argv = [sys.executable, "-m", "testbed.workload", service]
        argv += ["--url", f"http://127.0.0.1:{port}", "--csv", str(self._csv(service))]
        argv += ["--mode", mode, "--start", str(len(self._rows(service)))]
        argv += ["--recording", str(self.work / "speech.wav")]
        argv += ["--control", str(self.roles.control(service)), *options]
        return self.bed.client.popen(argv, log=self.work / WORKLOAD_LOG)

    def _csv(self, service: str) -> Path:
        return self.out / f"{service}.csv"

    def _rows(self, service: str) -> list[str]:
        path = self._csv(service)
        return path.read_text().splitlines()[1:] if path.exists() else []

    def _count(self, service: str) -> None:
        if service == "notes":
            self.iterations = len(self._rows("notes"))

    def _last_leader(self, service: str) -> str:
        return self._rows(service)[-1].split(",")[3]

    @property
    def _until(self) -> Path:
        return self.work / "until"

    def stop(self, service: str) -> None:
        """End the session of a service."""
        self.roles.satchel("stop", service, "--json")

    def _workload_failed(self) -> SatchelError:
        said = (self.work / WORKLOAD_LOG).read_text(errors="replace")
        return SatchelError("the workload failed", why=said[-2000:])


@click.command()
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="today")
@click.option("--out", type=click.Path(path_type=Path), default=Path("demo-out"))
@click.option("--keep", is_flag=True, help="Keep the work folder (logs, stores).")
def main(profile: str, out: Path, keep: bool) -> None:
    """Play the whole main job on this machine."""
    console = Console() if sys.stdout.isatty() else Console(width=150)
    console.print(f"Profile {profile}: {FORECAST[profile]}.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    work = Path(tempfile.mkdtemp(prefix="satchel-"))
    try:
        with Testbed(PROFILES[profile]) as bed:
            story = Story(bed, work, out.resolve(), console)
            try:
                story.play()
                story.facts["moves"] = [move.facts(profile) for move in story.moves]
                story.recorder.write(out / "summary.json", profile=profile, facts=story.facts)
                console.print(story.recorder.table())
                console.print(moves_table(story.moves, profile))
            finally:
                story.close()
        plot.response_times(sorted(out.glob("*.csv")), out / "response-time.png")
        console.print(f"In {out}: summary.json, the series as CSV, response-time.png")
    except SatchelError as error:
        console.print(f"[red]the demo failed:[/] {error}\nlogs: {work}")
        keep = True
        sys.exit(error.exit_code)
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    run_program(main, "testbed.story")
