# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a home lacks, all of it at once: the home itself, its daemon, sshd, laptops, media."""

from __future__ import annotations

import getpass
import stat
from collections.abc import Iterator
from pathlib import Path

from console import Finding
from homeserver.settings import HomeSettings
from hypervisor import kvm_denied_to
from sandbox import lacking
from satchel.errors import SatchelError
from wire import HttpClient, host_keys

LOCAL = "127.0.0.1"


def preflight(settings: HomeSettings, ssh_port: int, authorized_keys: Path) -> list[Finding]:
    """Everything that keeps this home from working, and then what keeps laptops from it. Never
    fails."""
    return [
        *_of_home(settings),
        *_of_libvirt(settings),
        *_of_kvm(getpass.getuser()),
        *_of_daemon(settings),
        *_of_sshd(ssh_port),
        *_of_laptops(authorized_keys),
    ]


def _of_home(settings: HomeSettings) -> Iterator[Finding]:
    try:
        mode = settings.identity.stat().st_mode
    except OSError:
        yield Finding(f"there is no home in {settings.data}", "make one: `satchel-home init`")
        return
    yield from _of_uid(settings)
    if stat.S_IMODE(mode) & 0o077:
        key = settings.identity
        yield Finding(f"others may read the owner's key {key}", f"chmod 600 {key}")


def _of_uid(settings: HomeSettings) -> Iterator[Finding]:
    """Without cells a machine has the user of the daemon, and so of the key."""
    owner = settings.identity.stat().st_uid
    if owner and (settings.cell == "off" or lacking()):
        yield Finding(
            f"a machine that a guest has broken reads the owner's key {settings.identity}: no cell"
            " is around it, and its user is the key's",
            'say `cell = "auto"`, and install bubblewrap and allow user namespaces',
        )


def _of_libvirt(settings: HomeSettings) -> Iterator[Finding]:
    from hypervisor import missing_for_libvirt  # all drivers: few commands need them

    for what, remedy in missing_for_libvirt(settings.driver, settings.run, settings.data):
        yield Finding(what, remedy)


def _of_kvm(user: str) -> Iterator[Finding]:
    if kvm_denied_to(user):
        remedy = f"`sudo usermod --append --groups kvm {user}`, and log in again"
        yield Finding(f"machines are emulated: {user} may not use /dev/kvm", remedy, "warning")


def _of_daemon(settings: HomeSettings) -> Iterator[Finding]:
    """And what it says of its services."""
    remedy = "start it: `satchel-home serve`"
    if not settings.socket.exists():
        yield Finding(f"no home server answers at {settings.socket}", remedy)
        return
    try:
        with HttpClient(settings.socket, peer="the home server") as daemon:
            services = daemon.get_json("/v1/services")
    except SatchelError as error:
        yield Finding(str(error), remedy)
        return
    if not services:
        remedy = "build an image and add a service: `satchel-home image build`, `service add`"
        yield Finding("this home has no services", remedy, "warning")


def _of_sshd(port: int) -> Iterator[Finding]:
    try:
        host_keys(LOCAL, port)
    except SatchelError as error:
        remedy = "install openssh-server, or say its port with --ssh-port"
        yield Finding(f"laptops cannot reach this home: {error.what}", remedy)


def _of_laptops(authorized_keys: Path) -> Iterator[Finding]:
    try:
        lines = authorized_keys.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    keys = [line for line in lines if line.strip() and not line.startswith("#")]
    if not any("satchel-home" in line or "restrict" in line for line in keys):
        yield Finding(
            f"no laptop is paired: {authorized_keys} has no line of one",
            "`satchel-home pair`, then what it shows on the laptop",
            "warning",
        )
