# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The main job as a story, played on this machine: `./scripts/demo`.

A person has two services at home: `notes`, which keeps state, and `speech`, which does not. They
are checkpointed onto a stick. At hotspot A the person works with replicas on the surrogate there,
moves to hotspot B, where replicas resume from the stick, once more without the stick, loses
surrogate B in the middle of the work, goes on with home, and returns.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from images import PHRASES, speak
from satchel.errors import SatchelError
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

RECORDINGS = 2

PAUSE_SECONDS = 0.1
"""Between operations: a person is not a load generator."""

RESPONSE_SECONDS = 3600.0

LEAD_SECONDS = 20.0
"""How long a move waits for the new replica to be the first to answer."""

THINK_SECONDS = {"today": 0.2, "paper": 1.0}

FORECAST = {
    "today": "about 5 minutes once the images are built",
    "paper": "about 40 minutes: home's uplink has 256 kb/s",
}


class Story:
    """The steps, in order; each leaves rows in the recorder."""

    def __init__(self, bed: Testbed, work: Path, out: Path, console: Console) -> None:
        self.bed = bed
        self.out = out
        self.work = work
        self.console = console
        self.think = THINK_SECONDS[bed.topology.profile.name]
        self.recorder = Recorder(bed, console)
        self.stick = Stick(work / "m")
        self.roles = Roles(bed, work, cache_folder())
        self.facts: dict[str, Any] = {"media": self.stick.kind}
        self.iterations = 0
        self._chunks: dict[str, int] = {}
        self._written = 0
        self._mark = 0
        self.background: subprocess.Popen[bytes] | None = None

    def play(self) -> None:
        """The whole story."""
        self.build()
        self.roles.start()
        self.at_home()
        self.at_hotspot_a()
        self.to_hotspot_b()
        self.without_media()
        self.surrogate_dies()
        self.back_home()

    def close(self) -> None:
        """Put everything away."""
        for role in [*self.roles.surrogates.values(), self.roles.home]:
            role.stop()
        self.stick.close()

    def build(self) -> None:
        """Service images and a recording."""
        for name in ("notes", "speech"):
            with self.recorder.step(f"build image {name}", "home") as row:
                size = built_image(name).disk.stat().st_size
                row.facts["image"] = f"{size >> 20} MiB"
        (self.work / "speech.wav").write_bytes(speak(PHRASES[0]))

    def at_home(self) -> None:
        """Boot both services, checkpoint them onto the stick."""
        home = self.roles.home
        home.command("media", "init", self.stick.root, "--json")
        for name in ("notes", "speech"):
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
        self._session("notes", "a", media=True)
        self._use("notes", OPERATIONS, WITH, "operations of notes", "client at A")
        self._session("speech", "a", media=True)
        self._use("speech", RECORDINGS, WITH, "recognitions", "client at A")

    def to_hotspot_b(self) -> None:
        """Move while working: replicas resume at B from the stick."""
        for name in ("notes", "speech"):
            self._move(name, "b", WITH)
        self._use("notes", OPERATIONS, WITH, "operations of notes", "client at B")
        self._use("speech", RECORDINGS, WITH, "recognitions", "client at B")

    def without_media(self) -> None:
        """The same move once more, to an empty surrogate, from home over the slow link."""
        for name in ("notes", "speech"):
            self._stop(name)
        self._shift("a")
        self.roles.restart_surrogate("b", empty=True)
        for name in ("notes", "speech"):
            self._session(name, "a", media=name == "notes")
            self._move(name, "b", WITHOUT)
        self._use("notes", OPERATIONS, WITHOUT, "operations of notes", "client at B")

    def surrogate_dies(self) -> None:
        """Cut B's power in the middle of operations: home's answers go on."""
        self._begin_background("notes", "surrogate lost")
        self._await_rows("notes", 5)
        with self.recorder.step("surrogate B loses power; home goes on", "hotspot B") as row:
            self.roles.surrogates["b"].crash()
            self._await_rows("notes", 15)
            self._end_background()
            row.facts["leader now"] = self._last_leader("notes")
        with self.recorder.step("a new replica of notes", "surrogate A") as row:
            brought = self.roles.satchel("move", "notes", "--to", "a", "--json")
            row.facts["replayed"] = brought["replayed"]
        self._use("notes", 5, "surrogate lost", "operations of notes", "client at B")
        status = self.roles.satchel("status", "notes", "--json")
        self.facts["lost_operations"] = self.iterations - status["last_operation"]
        self.facts["divergences"] = len(status["divergences"])

    def back_home(self) -> None:
        """The log is reconciled, a new checkpoint replaces the old one on the stick."""
        for name in ("notes", "speech"):
            self._stop(name)
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

    def _session(self, service: str, surrogate: str, *, media: bool) -> None:
        where = ["--media", str(self.stick.root)] if media else []
        with self.recorder.step(f"run {service}", f"surrogate {surrogate.upper()}") as row:
            log = self.work / f"{service}.log"
            self.roles.start_session(service, *where, "--json", log=log)
            brought = self.roles.satchel("move", service, "--to", surrogate, "--json")
            self._note(row.facts, brought)

    def _move(self, service: str, surrogate: str, mode: str) -> None:
        """Join the other hotspot, bring up a replica there, with operations going on."""
        self._begin_background(service, mode)
        self._await_rows(service, 1)
        if self.bed.client.hotspot != surrogate:
            self._shift(surrogate)
        without = ["--without-media"] if mode == WITHOUT else []
        where = f"to surrogate {surrogate.upper()}, {mode}"
        began = time.time()
        with self.recorder.step(f"move {service}", where) as row:
            brought = self.roles.satchel("move", service, "--to", surrogate, *without, "--json")
            self._note(row.facts, brought)
            fetched = self._await_response(service, surrogate)
            first = time.time() - began
            row.facts["first response from it after"] = f"{first:.1f} s"
            share = self._share(service, fetched)
            row.facts["fetched before it"] = f"{share:.1%} of the stored state"
        with self.recorder.step(f"until its answers of {service} come first", where) as row:
            self._await_leader(service, surrogate)
            row.facts["leader"] = self._last_leader(service)
        self.facts.setdefault("moves", []).append(
            {"service": service, "mode": mode, "first_response_seconds": first, "share": share}
        )
        self._end_background()

    def _share(self, service: str, fetched: dict[str, int]) -> float:
        """What part of a machine's stored state was fetched; chunks are alike in size."""
        stored = self._written * self._chunks[service] / sum(self._chunks.values())
        return sum(fetched.values()) / stored

    def _await_response(self, service: str, surrogate: str) -> dict[str, int]:
        """Until a replica has answered an operation; what it had fetched by then, by source."""
        deadline = time.monotonic() + RESPONSE_SECONDS
        while time.monotonic() < deadline:
            status = self.roles.satchel("status", service, "--json")["surrogates"][surrogate]
            if status.get("first_response_bytes") is not None:
                return dict(status["first_response_bytes"])
            time.sleep(0.2)
        raise SatchelError(f"the replica of {service} at {surrogate} answered nothing")

    def _await_leader(self, service: str, surrogate: str) -> None:
        """Give a new replica some time to be the first to answer; home may stay faster."""
        deadline = time.monotonic() + LEAD_SECONDS
        while self._last_leader(service) != surrogate and time.monotonic() < deadline:
            time.sleep(0.05)

    def _shift(self, hotspot: str) -> None:
        with self.recorder.step("walk to another hotspot", f"client to {hotspot.upper()}"):
            self.bed.client.move(hotspot)

    def _note(self, facts: dict[str, Any], brought: dict[str, Any]) -> None:
        facts["running after"] = f"{brought['running_seconds']:.1f} s"
        facts["fetched"] = ", ".join(
            f"{name} {count / 1e6:.2f} MB" for name, count in brought["fetched_bytes"].items()
        )
        facts["replayed"] = brought["replayed"]

    def _use(self, service: str, count: int, mode: str, what: str, where: str) -> None:
        with self.recorder.step(f"{count} {what}", where) as row:
            pause = ["--think", str(PAUSE_SECONDS)] if service == "notes" else []
            process = self._workload(service, mode, "--count", str(count), *pause)
            if process.wait() != 0:
                raise SatchelError(f"the workload of {service} failed", why=self._log_tail(service))
            row.facts["leader"] = self._last_leader(service)
        self._count(service)

    def _begin_background(self, service: str, mode: str) -> None:
        self._until.unlink(missing_ok=True)
        self._mark = len(self._rows(service))
        self.background = self._workload(
            service, mode, "--count", "1", "--until", str(self._until), "--think", str(self.think)
        )

    def _end_background(self) -> None:
        assert self.background is not None
        self._until.touch()
        if self.background.wait() != 0:
            raise SatchelError("the workload failed", why=self._log_tail("workload"))
        self._count("notes")

    def _await_rows(self, service: str, count: int) -> None:
        """Until the background workload has done that many operations since it began."""
        while len(self._rows(service)) < self._mark + count:
            if self.background is not None and self.background.poll() not in (None, 0):
                raise SatchelError("the workload failed", why=self._log_tail("workload"))
            time.sleep(0.05)

    def _workload(self, service: str, mode: str, *options: str) -> subprocess.Popen[bytes]:
        port = self.roles.satchel("status", service, "--json")["port"]
        argv = [sys.executable, "-m", "testbed.workload", service]
        argv += ["--url", f"http://127.0.0.1:{port}", "--csv", str(self._csv(service))]
        argv += ["--mode", mode, "--start", str(len(self._rows(service)))]
        argv += ["--recording", str(self.work / "speech.wav"), *options]
        return self.bed.client.popen(argv, log=self.work / "workload.log")

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

    def _stop(self, service: str) -> None:
        self.roles.satchel("stop", service, "--json")

    def _log_tail(self, name: str) -> str:
        path = self.work / f"{name}.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""


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
            finally:
                story.close()
            story.recorder.write(out / "summary.json", profile=profile, facts=story.facts)
            console.print(story.recorder.table())
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
    main()
