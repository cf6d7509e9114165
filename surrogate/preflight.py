# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a surrogate lacks, all of it at once: its daemon, its sshd, what its guests' keys may do."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path

from console import Finding, program_path
from hypervisor import kvm_denied_to
from satchel.errors import SatchelError
from surrogate.settings import SurrogateSettings
from wire import door_settings, not_in_force, shell_lines, sshd_in_force

FORCED = "ForceCommand"


def preflight(settings: SurrogateSettings, user: str, config: Path | None) -> list[Finding]:
    """Everything that keeps this surrogate from working, or its guests from having a door only.
    config: sshd's file, where it is not the usual one. Never fails."""
    return [
        *_of_daemon(settings),
        *_of_libvirt(settings),
        *_of_kvm(user),
        *_of_sshd(settings, user, config),
    ]


def wanted_of_sshd(settings: SurrogateSettings) -> dict[str, str]:
    """What sshd has to be told of sessions of guests."""
    authority = settings.authority / "users.pub"
    command = f"{program_path()} door"
    return door_settings(command, authority if authority.exists() else None)


def _of_daemon(settings: SurrogateSettings) -> Iterator[Finding]:
    if not settings.socket.exists():
        what = f"no surrogate answers at {settings.socket}"
        yield Finding(what, "start it: `satchel-surrogate serve`")


def _of_libvirt(settings: SurrogateSettings) -> Iterator[Finding]:
    from hypervisor import missing_for_libvirt  # all drivers: few commands need them

    for what, remedy in missing_for_libvirt(settings.driver, settings.run, settings.data):
        yield Finding(what, remedy)


def _of_kvm(user: str) -> Iterator[Finding]:
    if kvm_denied_to(user):
        remedy = f"`sudo usermod --append --groups kvm {user}`, and restart the surrogate"
        yield Finding(f"machines are emulated: {user} may not use /dev/kvm", remedy, "warning")


def _of_sshd(settings: SurrogateSettings, user: str, config: Path | None) -> Iterator[Finding]:
    try:
        found = sshd_in_force(user, config)
    except SatchelError as error:
        remedy = error.fix or "run `satchel-surrogate doctor` as root"
        yield Finding(f"nobody knows what {user}'s keys may do: {error.what}", remedy)
        return
    missing = not_in_force(wanted_of_sshd(settings), found)
    remedy = f"put in force what `satchel-surrogate sshd-config --user {user}` prints, reload sshd"
    for line in missing:
        yield Finding(f"sshd does not have {line} for {user}", remedy)
    if any(line.startswith(FORCED) for line in missing):
        yield from _of_keys(user, found.get("authorizedkeysfile", ""))


def _of_keys(user: str, files: str) -> Iterator[Finding]:
    """Lines that give a shell, while sshd does not force a door on all."""
    try:
        home = Path(pwd.getpwnam(user).pw_dir)
    except KeyError:
        yield Finding(f"there is no account {user}", f"make it: `adduser --disabled-login {user}`")
        return
    for name in files.split():
        named = name.replace("%h", str(home)).replace("%u", user).replace("%%", "%")
        path = home / named.strip('"')
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            continue
        except OSError as error:
            yield Finding(f"{path} cannot be read: {error.strerror}", "run this as root")
            continue
        for number in shell_lines(lines):
            remedy = 'begin the line with restrict,command="/path/to/satchel-surrogate door"'
            yield Finding(f"line {number} of {path} gives a guest more than a door", remedy)
