# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Libvirt's daemon, spoken to through Debian's binding.

The binding belongs to the daemon's library, so it is the distribution's (python3-libvirt), and is
loaded from where that puts it; no other package of the distribution becomes visible by this.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from satchel.errors import UnavailableError

SYSTEM = "qemu:///system"
"""The daemon that runs as root. It gives domains users of their own, and limits them."""

SESSION = "qemu:///session"
"""The daemon of a user, with no more rights than that user. The library starts it when it is asked
for, and it ends some minutes after its last domain."""

FORGET_SECONDS = 20.0
"""How long libvirt may take to see that a domain has ended."""

PERIOD = 100_000
"""Microseconds in which a domain may use its processors."""

_UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers")
"""Exists where control groups are of version 2, whose usual weight is 100 and not 1024."""

_DISTRIBUTION = ["/usr/lib/python3/dist-packages"]


_PROGRAMS = {
    "libvirt-daemon": "sbin/libvirtd",
    "libvirt-daemon-driver-qemu": "lib/*/libvirt/connection-driver/libvirt_driver_qemu.so",
}
"""Below /usr: what tells that a package is there."""


class LibvirtUnavailable(UnavailableError):
    """Libvirt's daemon or its binding is missing or does not follow requests."""


@dataclass(frozen=True)
class Limits:
    """What the cgroup of a domain is given: MiB of memory, and whole processors."""

    memory_mib: int
    processors: int


class Daemon:
    """One daemon, by the URI of its connection. Thread-safe; each call has its own connection, so
    a daemon that was started again is found."""

    def __init__(self, uri: str = SYSTEM) -> None:
        self.uri = uri

    def version(self) -> str:
        """Its version. Raises LibvirtUnavailable where it does not answer."""
        with self._connected() as (_, connection):
            number = int(connection.getLibVersion())
        return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"

    def create(self, xml: str, limits: Limits | None = None) -> str:
        """Start a domain that stands still and is forgotten when it ends, and limit it. Raises
        LibvirtUnavailable, with libvirt's reason; returns why limits are not in force, if so.

        The limits are set on the domain that is there: in its XML a limit of memory would have
        libvirt raise that of locked memory too, which not every root may.
        """
        with self._connected() as (libvirt, connection):
            flags = libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_VALIDATE
            try:
                domain = connection.createXML(xml, flags)
            except libvirt.libvirtError as error:
                raise LibvirtUnavailable(
                    "libvirt does not start the domain", why=str(error)
                ) from error
            if limits is None:
                return ""
            try:
                domain.setMemoryParameters({"hard_limit": limits.memory_mib << 10})
                domain.setSchedulerParameters(
                    {"global_period": PERIOD, "global_quota": PERIOD * limits.processors}
                )
            except libvirt.libvirtError as error:
                return str(error)
        return ""

    def weigh(self, known: uuid.UUID, weight: int) -> None:
        """Give the domain that part of the processors while others want them, in hundredths of the
        usual one. Without a control group of the domain, nothing changes."""
        usual = 100 if _UNIFIED.exists() else 1024
        with self._connected() as (_, connection):
            domain = connection.lookupByUUID(known.bytes)
            domain.setSchedulerParameters({"cpu_shares": max(2, usual * weight // 100)})

    def destroy(self, known: uuid.UUID) -> None:
        """End the domain, if there is one, and wait until libvirt has forgotten it."""
        over = threading.Event()
        with self._connected() as (libvirt, connection):
            for _ in range(int(FORGET_SECONDS * 10)):
                try:
                    connection.lookupByUUID(known.bytes).destroy()
                except libvirt.libvirtError as error:
                    if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                        return
                over.wait(0.1)
        raise LibvirtUnavailable(f"libvirt does not end the domain {known}")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[Any, Any]]:
        libvirt: Any = binding()
        try:
            connection = libvirt.open(self.uri)
        except libvirt.libvirtError as error:
            raise LibvirtUnavailable(
                f"no libvirt answers at {self.uri}",
                why=str(error),
                fix='start its daemon, or have driver = "qemu" in the settings',
            ) from error
        try:
            yield libvirt, connection
        except libvirt.libvirtError as error:
            raise LibvirtUnavailable("libvirt does not answer", why=str(error)) from error
        finally:
            with contextlib.suppress(libvirt.libvirtError):
                connection.close()


def lacking_packages() -> list[str]:
    """The packages of Debian that domains need and this host lacks."""
    usr = Path("/usr")
    found = [name for name, file in _PROGRAMS.items() if next(usr.glob(file), None) is None]
    try:
        binding()
    except LibvirtUnavailable:
        found.append("python3-libvirt")
    return found


@functools.cache
def binding() -> ModuleType:
    """The distribution's module `libvirt`. Raises LibvirtUnavailable."""
    for name in ("libvirtmod", "libvirt"):
        if name in sys.modules:
            continue
        spec = importlib.machinery.PathFinder.find_spec(name, _DISTRIBUTION)
        if spec is None or spec.loader is None:
            raise LibvirtUnavailable(
                "Python's binding of libvirt is missing", fix="install python3-libvirt"
            )
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except ImportError as error:
            del sys.modules[name]
            raise LibvirtUnavailable(
                "Python's binding of libvirt cannot be loaded", why=str(error)
            ) from error
    libvirt = sys.modules["libvirt"]
    libvirt.registerErrorHandler(lambda context, error: None, None)  # all of them are raised
    return libvirt
