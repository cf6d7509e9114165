# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What `systemd-analyze security` finds at each unit, with the reason for all that is left.

A directive is named as the tool's JSON does; a reason holds for all that begin like it.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.needs import requires
from tests.repository import tree

SYSTEM_UNITS = sorted((tree.ROOT / "debian").glob("*.service"))
USER_UNITS = sorted((tree.ROOT / "debian" / "user").glob("*.service"))

CELLS = {
    "Delegate": "each cell has a control group below the unit's",
    "DeviceAllow": "KVM and FUSE",
    "MemoryDenyWriteExecute": "QEMU without KVM translates code",
    "ProcSubset": "it would hide /proc/net, /proc/sys and /proc/meminfo",
    "ProtectControlGroups": "cells get groups",
    "ProtectHostname": "a cell has a host name of its own",
    "ProtectKernelLogs": "it mounts over /proc/kmsg; then a cell cannot mount its /proc",
    "ProtectKernelTunables": "it mounts over /proc/sys; then a cell cannot mount its /proc",
    "RestrictAddressFamilies_AF_NETLINK": "bubblewrap brings a cell's loopback up",
    "RestrictNamespaces": "a cell has its own, of all kinds but control groups",
    "RestrictSUIDSGID": "it takes openat2 away, which bubblewrap 0.12 needs",
    "SystemCallFilter_mount": "bubblewrap mounts",
    "SystemCallFilter_privileged": "bubblewrap changes the root",
    "SystemCallFilter_resources": "cells have priorities and limits",
}

NETWORK = {
    "IPAddressDeny": "the peers' addresses are in the settings",
    "PrivateNetwork": "OpenSSH's links go to other hosts",
    "RestrictAddressFamilies_AF_INET_INET6": "OpenSSH's links go to other hosts",
    "RestrictAddressFamilies_AF_UNIX": "daemons listen at Unix sockets",
    "RootDirectoryOrRootImage": "the programs are Debian's packages",
}

NO_RIGHT = "a person's systemd may not: this needs root, or a user namespace"

PERSON = {
    **dict.fromkeys(
        ("CapabilityBoundingSet", "PrivateMounts", "PrivateTmp", "PrivateUsers", "ProtectClock"),
        NO_RIGHT,
    ),
    **dict.fromkeys(("ProtectKernel", "ProtectProc", "ProtectSystem", "UserOrDynamic"), NO_RIGHT),
    **dict.fromkeys(("DeviceAllow", "PrivateDevices", "ProcSubset", "ProtectHostname"), NO_RIGHT),
    "MemoryDenyWriteExecute": "Python's ctypes makes code for callbacks",
    "ProtectControlGroups": NO_RIGHT,
    "ProtectHome": "its state, and the media, are in the person's folders",
    "RestrictAddressFamilies_AF_NETLINK": "it watches for new addresses",
    "SystemCallFilter_mount": "a person may mount nothing anyway",
    "SystemCallFilter_privileged": "a person has no privilege",
    "SystemCallFilter_resources": "threads have priorities",
}

STARTS_CELLS = {name: CELLS[name] for name in ("RestrictNamespaces", "RestrictSUIDSGID")} | {
    "UMask": "files of shares have the modes that their makers ask for"
}

SETUID = "fusermount3 has the set-UID bit, which no filter leaves its effect"

REASONS = {
    "satchel-surrogate.service": (29, CELLS | NETWORK),
    "satchel-home.service": (
        32,
        CELLS
        | NETWORK
        | {
            "PrivateUsers": "shares show who owns a file",
            "ProtectHome": "shared folders are in people's homes",
        },
    ),
    "user/satchel@.service": (66, NETWORK | PERSON),
    "user/satchel-plugged@.service": (66, NETWORK | PERSON),
    "user/satchel-home-plugged@.service": (76, NETWORK | PERSON | STARTS_CELLS),
    "user/satchel-home.service": (
        76,
        NETWORK | PERSON | STARTS_CELLS | {"Delegate": CELLS["Delegate"]},
    ),
    "user/satchel-mount@.service": (
        96,
        NETWORK
        | PERSON
        | dict.fromkeys(
            ("LockPersonality", "NoNewPrivileges", "Restrict", "SystemCall"),
            SETUID,
        ),
    ),
}
"""The most that the tool may count, in tenths of ten, and why. The goal is 30. A machine's home
misses it, as it shows the owners of people's files. A person's units lack mostly what a person may
not set."""


def said(unit: Path, *options: str) -> subprocess.CompletedProcess[str]:
    argv = ["systemd-analyze", "security", "--offline=true", "--no-pager", *options, str(unit)]
    return subprocess.run(argv, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("unit", [*SYSTEM_UNITS, *USER_UNITS], ids=lambda unit: str(unit.name))
@requires("systemd-analyze")
def test_each_directive_that_a_unit_lacks_has_a_reason(unit: Path) -> None:
    limit, reasons = REASONS[unit.relative_to(tree.ROOT / "debian").as_posix()]
    judged = said(unit, f"--threshold={limit}")
    assert judged.returncode == 0, judged.stdout[-200:]
    assert said(unit, f"--threshold={limit - 2}").returncode != 0, "lower the number"
    found = json.loads(said(unit, "--json=short").stdout)
    lacking = [each["json_field"] for each in found if not each["set"] and each["exposure"]]
    assert [name for name in lacking if not name.startswith(tuple(reasons))] == []
    assert [each for each in reasons if not any(name.startswith(each) for name in lacking)] == []
