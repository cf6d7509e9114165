# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A network on which multicast passes, as on a Wi-Fi: a bridge between namespaces.

    with Air(("cafe", "guest")) as air:
        subprocess.Popen([*air.prefix("cafe"), "satchel-surrogate", "serve"])
        air.leave("guest")

Host number N has the address 10.30.0.N. Links of a `Testbed` are point to point, and multicast ends
at the next router there, as it does between two sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from testbed import namespaces
from testbed.namespaces import ip

BRIDGE = "air"


class Air:
    """Made by its constructor, gone after `close`."""

    def __init__(self, hosts: Sequence[str]) -> None:
        """Raises UnsupportedError without the rights, TestbedFailed."""
        namespaces.require_privileges()
        namespaces.clean()
        prefix = namespaces.new_prefix()
        self._air = f"{prefix}{BRIDGE}"
        self._hosts = {name: f"{prefix}{name}" for name in hosts}
        self.addresses = {name: f"10.30.0.{n}" for n, name in enumerate(hosts, 1)}
        try:
            namespaces.create([self._air, *self._hosts.values()])
            ip("-n", self._air, "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
            ip("-n", self._air, "link", "set", BRIDGE, "up")
            for name in hosts:
                self._plug(name)
        except BaseException:
            self.close()
            raise

    def namespace(self, name: str) -> str:
        """Of that host, for `ip netns exec` and testbed.namespaces."""
        return self._hosts[name]

    def prefix(self, name: str) -> list[str]:
        """What to write before a command that is to run on that host."""
        return ["ip", "netns", "exec", self._hosts[name]]

    def leave(self, name: str) -> None:
        """The host is out of reach; its address stays."""
        ip("-n", self._air, "link", "set", name, "nomaster")

    def join(self, name: str) -> None:
        """The host is in reach again."""
        ip("-n", self._air, "link", "set", name, "master", BRIDGE)

    def close(self) -> None:
        """Every process in it is ended."""
        namespaces.delete([*self._hosts.values(), self._air])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _plug(self, name: str) -> None:
        host = self._hosts[name]
        ends = ["netns", host, "type", "veth", "peer", "name", name, "netns", self._air]
        ip("link", "add", "wlan0", *ends)
        ip("-n", self._air, "link", "set", name, "up")
        self.join(name)
        ip("-n", host, "address", "add", f"{self.addresses[name]}/24", "dev", "wlan0")
        for device in ("lo", "wlan0"):
            ip("-n", host, "link", "set", device, "up")
        ip("-n", host, "route", "add", "default", "dev", "wlan0")
