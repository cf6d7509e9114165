# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A cell for building the image of a container: its author's commands run in there.

buildah runs the lines of a Dockerfile in a chroot. They have the builder's user and may signal all
processes of that user: for root, all of the host. This cell shows buildah no process of the host,
and only these files: /usr, the configuration of registries and certificates, the context, and two
folders of the build. It has the network, which most builds need, and also the host's loopback.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sandbox.room import system_folders

_ETC = (
    *("containers", "ssl", "ca-certificates", "alternatives", "ld.so.cache", "nsswitch.conf"),
    *("hosts", "resolv.conf", "passwd", "group", "subuid", "subgid"),
)
_OWN = (".docker/config.json", ".config/containers")
"""The user's own registries, keys of signatures and passwords of registries."""

_CAPABILITIES = (
    *("SYS_ADMIN", "SYS_CHROOT", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD"),
    *("SETUID", "SETGID", "SETPCAP", "SETFCAP", "KILL", "NET_BIND_SERVICE"),
)
"""buildah mounts layers; it leaves its commands neither SYS_ADMIN nor MKNOD."""

_ENVIRONMENT = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_HOME = "/root"


def build_cell(
    command: Sequence[str], *, context: Path, writable: Sequence[Path], temporary: Path
) -> list[str]:
    """Return the arguments that run `command` in a cell, in the read-only folder `context`.

    writable: folders that it changes. temporary: a folder in place of /var/tmp. For an ordinary
    user, buildah first makes the user namespace with the numbers of /etc/subuid.
    """
    argv = [] if os.geteuid() == 0 else ["buildah", "unshare"]
    argv += ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    argv += ["--die-with-parent", "--new-session", "--clearenv", "--ro-bind", "/usr", "/usr"]
    argv += system_folders()
    for name in _ETC:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    argv += ["--dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys"]
    for folder in ("/tmp", "/run", _HOME):
        argv += ["--tmpfs", folder]
    for name in _OWN:
        argv += ["--ro-bind-try", str(Path.home() / name), f"{_HOME}/{name}"]
    argv += ["--bind", str(temporary), "/var/tmp", "--ro-bind", str(context), str(context)]
    for path in writable:
        argv += ["--bind", str(path), str(path)]
    for name in _CAPABILITIES:
        argv += ["--cap-add", f"CAP_{name}"]
    given = {"PATH": _PATH, "HOME": _HOME, "TMPDIR": "/var/tmp"}
    given |= {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    for name, value in given.items():
        argv += ["--setenv", name, value]
    return [*argv, "--chdir", str(context), "--", *command]
