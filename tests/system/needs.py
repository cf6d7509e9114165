# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What every test of the whole needs of the machine."""

import pytest

from tests.machines import MACHINE
from tests.needs import requires

WHOLE = [
    pytest.mark.netns,
    pytest.mark.machine,
    requires(*MACHINE, "netns", "tun", "loop", "mount.exfat-fuse", "mkfs.exfat", "sshd"),
]
"""Marks for a file: `pytestmark = WHOLE`."""
