# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The surrogates nearby, on a network of namespaces on which multicast passes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import Air, Sshd
from tests.needs import requires
from tests.waiting import eventually

BIN = Path(sys.executable).parent


@pytest.fixture
def air() -> Iterator[Air]:
    with Air(("cafe", "guest")) as made:
        yield made


class Host:
    def __init__(self, air: Air, name: str, folder: Path) -> None:
        self.air, self.name, self.folder = air, name, folder
        (folder / "run").mkdir(parents=True, mode=0o700)
        self.environment = os.environ | {
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def write(self, name: str, text: str) -> None:
        place = self.folder / "config" / "satchel" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def starts(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [*self.air.prefix(self.name), BIN / words[0], *words[1:]],
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def sees(self, *words: str) -> Any:
        done = subprocess.run(
            [*self.air.prefix(self.name), BIN / words[0], *words[1:], "--json"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@requires("netns", "tun", "qemu-system-x86_64", "sshd")
def test_a_surrogate_that_announces_itself_is_listed(air: Air, short_path: Path) -> None:
    cafe = Host(air, "cafe", short_path / "cafe")
    guest = Host(air, "guest", short_path / "guest")
    cafe.write(
        "surrogate.toml",
        'name = "cafe"\nannounce = true\nprice = "free"\nallow-emulation = true\n'
        'cell = "off"\ncell-off-as-root = true\ndriver = "qemu"\n',
    )
    assert guest.sees("satchel", "surrogates") == []
    sshd = Sshd.start(short_path / "sshd", address="0.0.0.0", port=22, prefix=air.prefix("cafe"))
    daemon = cafe.starts("satchel-surrogate", "serve")
    try:
        rows: list[dict[str, Any]] = []

        def listed() -> bool:
            rows[:] = guest.sees("satchel", "surrogates")
            return bool(rows)

        assert eventually(listed), (cafe.folder / "log").read_text()
        (row,) = rows
        assert (row["name"], row["known"], row["price"]) == ("cafe", None, "free")
        assert row["address"] == air.addresses["cafe"]
        assert "tcg" in row["runs"]
        assert row["round_trip_seconds"] is None  # nothing connects to a stranger
        guest.write(
            "client.toml",
            f'[surrogates.corner]\ndestination = "me@{row["address"]}"\nport = {row["port"]}\n'
            '[surrogates.far]\ndestination = "me@10.30.0.77"\n',
        )
        rows = guest.sees("satchel", "surrogates")
        assert [row["known"] for row in rows] == ["corner", "far"]
        assert 0 <= rows[0]["round_trip_seconds"] < 2
        assert rows[1]["round_trip_seconds"] is None
        guest.write("known_hosts", f"10.30.0.77 {sshd.host_key.public}\n")  # where it was once
        guest.write("client.toml", '[surrogates.far]\ndestination = "me@10.30.0.77"\n')
        row = next(row for row in guest.sees("satchel", "surrogates") if row["announced"])
        assert (row["known"], row["address"]) == ("far", air.addresses["cafe"])
        air.leave("guest")
        assert not [row for row in guest.sees("satchel", "surrogates") if row["announced"]]
        air.join("guest")
        assert eventually(lambda: guest.sees("satchel", "surrogates")[0]["announced"])
    finally:
        daemon.terminate()
        daemon.wait(60)
        sshd.stop()
    assert not [row for row in guest.sees("satchel", "surrogates") if row["announced"]]
