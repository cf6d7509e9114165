# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The hosts of a testbed that are all this machine: no namespaces, no links between them, no root.

What `Roles` asks of a Testbed is here too, so home, surrogates and client are the same processes
with the same files, each behind an sshd of its own on a free port of 127.0.0.1.
"""

from __future__ import annotations

import subprocess

from testbed.bed import STOP_GRACE, Host
from testbed.topology import CLIENT, HOME, TODAY, Topology, surrogate_host

ADDRESS = "127.0.0.1"


class LocalHost(Host):
    """A part of this machine."""

    ssh_port = 0  # any that is free

    def __init__(self, name: str) -> None:
        super().__init__(name, "", ADDRESS)

    @property
    def prefix(self) -> list[str]:
        """Nothing: programs run here as they are."""
        return []


class Loopback:
    """Home, a surrogate at each hotspot and the client, all on this machine. One thread."""

    def __init__(self, hotspots: tuple[str, ...] = ("a", "b")) -> None:
        self.topology = Topology(TODAY, hotspots)
        names = (HOME, *(surrogate_host(spot) for spot in hotspots))
        self._hosts = {name: LocalHost(name) for name in names}
        self.client = LocalHost(CLIENT)

    def host(self, name: str) -> Host:
        """The host of that name in the topology."""
        return self._hosts[name]

    def close(self) -> None:
        """End what was started on them and is not ended yet."""
        hosts = [self.client, *self._hosts.values()]
        for process in [one for host in hosts for one in host.stop_processes()]:
            try:
                process.wait(STOP_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
