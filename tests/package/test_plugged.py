# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What udev makes of a medium that is plugged in, by its own parser, with a real file system."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chunkstore.mounts import device
from tests.needs import requires
from tests.repository import tree

pytestmark = requires("root", "loop", "udevadm", "mkfs.exfat", "unshare")

RULES = sorted((tree.ROOT / "debian" / "udev").glob("*.rules"))
USER_UNITS = tree.ROOT / "debian" / "user"

LOOK = """
mount -t tmpfs run /run
mkdir /run/udev
cp -r "$1" /run/udev/rules.d
exec udevadm test --action="$2" "$3" 2>&1
"""
"""In a mount namespace of its own: this machine's udev gets no rule of ours."""


@pytest.fixture
def stick(tmp_path: Path) -> Iterator[str]:
    with device(tmp_path, "exfat") as made:
        yield made


def said(folder: Path, made: str, bus: str, action: str = "add") -> str:
    """What udev says of a device on that bus."""
    rules = folder / "rules.d"
    rules.mkdir()
    for path in RULES:
        shutil.copy(path, rules)
    (rules / "00-bus.rules").write_text(f'ENV{{ID_BUS}}="{bus}"\n')
    place = f"/sys/class/block/{Path(made).name}"
    argv = ["unshare", "--mount", "sh", "-ec", LOOK, "sh", str(rules), action, place]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def wanted(text: str) -> set[str]:
    found = re.search(r"^SYSTEMD_USER_WANTS=(.*)$", text, re.MULTILINE)
    return set(found[1].split()) if found else set()


def test_a_medium_has_units_of_each_package(tmp_path: Path, stick: str) -> None:
    text = said(tmp_path, stick, "usb")
    complaints = [row for row in text.splitlines() if "satchel" in row and "Reading" not in row]
    units = wanted(text)
    name = Path(stick).name
    assert units == {f"{package}-plugged@{name}.service" for package in ("satchel", "satchel-home")}
    assert [row for row in complaints if not row.startswith("SYSTEMD_USER_WANTS=")] == []
    assert re.search(r"^TAGS=.*:systemd:", text, re.MULTILINE)
    for unit in units:
        assert (USER_UNITS / unit.replace(f"@{name}.", "@.")).is_file()


@pytest.mark.parametrize(("bus", "action"), [("ata", "add"), ("usb", "change"), ("usb", "remove")])
def test_other_devices_and_events_are_left_alone(
    tmp_path: Path, stick: str, bus: str, action: str
) -> None:
    text = said(tmp_path, stick, bus, action)
    assert "ID_FS_TYPE=exfat" in text or action == "remove"
    assert wanted(text) == set()
