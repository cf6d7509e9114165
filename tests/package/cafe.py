# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The README's way by hand, in a machine that has booted with the packages: `ada` has a home there,
the machine is a surrogate by its unit, and `bob` is a laptop that is paired with both."""

import json
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.package.clean_root import CleanRoot, Machine
from tests.waiting import eventually

SERVICE = "notes"
PORT = 8080
HOST = "127.0.0.1"

CAFE = "localhost"
"""The same machine by another name: two peers cannot have the same place."""
PATIENCE = 600.0
PAUSE = 2.0
"""Between two looks, in seconds: each of them starts programs, perhaps on an emulated processor."""

NEWER = "0.2.0+newer"
"""The version to which an upgrade goes."""

SURROGATE = "satchel-surrogate"

PREPARE = f"""
set -e
satchel-home init
satchel-home image build {SERVICE}
satchel-home serve 2>serve.log &
timeout {PATIENCE:.0f} sh -c 'until satchel-home status; do sleep 1; done' >/dev/null 2>&1
satchel-home service add {SERVICE}
satchel-home launch {SERVICE}
kill $!
wait $!
"""

DOOR = f"""
set -e
echo 'allow-emulation = true' >> /etc/satchel/surrogate.toml
systemctl restart {SURROGATE}
{SURROGATE} sshd-config --user {SURROGATE} > /etc/ssh/sshd_config.d/satchel.conf
"""

NOTE = """
import json, sys, urllib.request
body = json.dumps({"title": "a thought", "text": "through an upgrade"}).encode()
kind = {"Content-Type": "application/json"}
asked = urllib.request.Request(sys.argv[1], data=body, headers=kind, method="POST")
print(urllib.request.urlopen(asked, timeout=float(sys.argv[2])).status)
"""


@dataclass
class Cafe:
    """typed: the commands by which bob's laptop came to know home and surrogate, as they were."""

    machine: Machine
    typed: list[str] = field(default_factory=list)

    @staticmethod
    def prepare(root: CleanRoot) -> None:
        """ada has a home with the service, which has booted and has a checkpoint: by the network,
        and before the machine boots. Under a KVM that is itself emulated a boot takes too long."""
        root.run("su", "-", "ada", "-c", PREPARE)

    def open(self, *home: str) -> None:
        """Home and surrogate run, and each knows the laptop. `prepare` comes before. home: how ada
        starts it, to come back at once; else it runs as she would type it."""
        if home:
            self.machine.run(*home, user="ada")
        else:
            self.goes_on("home", "ada", "satchel-home serve")
        assert eventually(lambda: self._answers("ada", "satchel-home status"), PATIENCE, PAUSE)
        self.machine.run("satchel-home", "launch", SERVICE, user="ada")
        self.machine.run("sh", "-c", DOOR)
        said = self._types(SURROGATE, f"{SURROGATE} authority init --name {CAFE} --json")
        lines = "\n".join(json.loads(said)["sshd_config"])
        append = f"echo {shlex.quote(lines)} >> /etc/ssh/sshd_config.d/satchel.conf"
        self.machine.run("sh", "-c", append)
        self.machine.run("systemctl", "restart", "ssh")
        self._pair("ada", f"satchel-home pair --at {HOST}", f"--at {HOST} --home")
        self._pair(SURROGATE, f"{SURROGATE} admit --at {CAFE}", f"--at {CAFE} --name cafe")
        for peer in ("home", "surrogates.cafe"):  # sshd may be emulated, and the doors with it
            self._is_patient(f"{peer}.connect_seconds")
        self._is_patient("surrogates.cafe.lost_seconds")

    def use(self) -> None:
        """A session of bob's, until its replica at the surrogate answers."""
        self.goes_on("session", "bob", f"satchel run {SERVICE} --at cafe --port {PORT}")
        self.catch_up()

    def catch_up(self) -> None:
        """Wait until the surrogate's replica has executed all there is."""
        if not eventually(self.caught_up, PATIENCE, PAUSE):
            print(self.log("session"))  # there may be no session to ask
            raise AssertionError(json.dumps(self.status()["replicas"])[:2000])

    def caught_up(self) -> bool:
        """Whether the surrogate's replica has executed all there is."""
        try:
            said = self.status()
        except AssertionError:
            return False
        rows = [row for row in said["replicas"] if row["name"] == "cafe"]
        return [row["operation"] for row in rows] == [said["last_operation"]]

    def status(self) -> Any:
        return json.loads(self.machine.run("satchel", "status", SERVICE, "--json", user="bob"))

    def write(self) -> None:
        """A note, by an operation."""
        url = f"http://{HOST}:{PORT}/api/notes"
        said = self.machine.run("python3", "-c", NOTE, url, str(PATIENCE), user="bob")
        assert said.strip() in ("200", "201")

    def guests(self) -> set[int]:
        """The process ids of the machines in the unit's control group, as the machine has them."""
        group = "/sys/fs/cgroup" + self.machine.property_of(SURROGATE, "ControlGroup")
        look = f"find {group} -name cgroup.procs -exec cat {{}} + | xargs ps -o pid=,comm= -p"
        rows = (row.split() for row in self.machine.run("sh", "-c", look).splitlines())
        return {int(pid) for pid, name in rows if name.startswith("qemu-system")}

    def goes_on(self, unit: str, user: str, command: str) -> None:
        """Run it as that person, until it ends. `su` may take it into a session of logind's, so its
        lines in the journal have an identifier: by the unit they are not found."""
        named = [f"--unit=test-{unit}", f"--property=SyslogIdentifier=test-{unit}"]
        self.machine.run("systemd-run", "--collect", *named, "su", "-", user, "-c", command)

    def log(self, unit: str) -> str:
        return self.machine.run("journalctl", "--no-pager", "-o", "cat", "-t", f"test-{unit}")

    def _pair(self, shower: str, command: str, more: str) -> None:
        unit = f"pair-{shower}"
        self.goes_on(unit, shower, command)
        codes: list[str] = []

        def shown() -> bool:
            codes[:] = re.findall(r"\b[0-9]{4}-[0-9]{4}\b", self.log(unit))
            return bool(codes) or not self._answers("root", f"systemctl is-active test-{unit}")

        assert eventually(shown, PATIENCE, PAUSE) and codes, self.log(unit)
        typed = f"satchel pair {codes[0]} {more}"
        self._types("bob", typed)
        self.typed.append(command)

    def _is_patient(self, key: str) -> None:
        self.machine.run("satchel", "config", "set", key, f"{PATIENCE:.0f}", user="bob")

    def _types(self, user: str, command: str) -> str:
        self.typed.append(command)
        return self.machine.run(*shlex.split(command), user=user)

    def _answers(self, user: str, command: str) -> bool:
        try:
            self.machine.run(*shlex.split(command), user=user)
        except AssertionError:
            return False
        return True


def renumbered(debs: Sequence[Path], folder: Path, version: str) -> list[Path]:
    """The same packages as another version, which depend on one another by that."""
    made = []
    for deb in debs:
        name, old, _ = deb.name.split("_", 2)
        tree = folder / name
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
        control = tree / "DEBIAN" / "control"
        control.write_text(control.read_text().replace(old, version))
        made.append(folder / deb.name.replace(old, version))
        argv = ["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(made[-1])]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return made
