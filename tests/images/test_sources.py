# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The host's package sources: Debian's, all of them, and nobody else's."""

from pathlib import Path

import pytest

from images import SourcesMissing
from images.sources import KEYRING, PackageSources, host_sources
from satchel.errors import UnsupportedError
from tests.needs import requires

ROWS = """\
Debian\tamd64\tbookworm\thttp://one.test/debian/\tbookworm\tmain
Debian\tarm64\tbookworm\thttp://one.test/debian/\tbookworm\tmain
Debian\tamd64\tbookworm-security\thttp://two.test/\tbookworm-security\tmain
Debian Backports\tamd64\tbookworm-backports\thttp://one.test/debian/\tbookworm-backports\tmain
Docker\tamd64\tbookworm\thttp://third.test/\tbookworm\tstable
"""


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: str) -> None:
    """Puts an apt before the host's that knows these indexes."""
    (folder / "rows").write_text(rows)
    (folder / "options").write_text('Acquire::http::Proxy "http://proxy.test";\nAcquire::x "1";\n')
    for program, script in (
        ("apt-get", f"cat {folder / 'rows'}"),
        (
            "apt-config",
            "echo 'Acquire::http::Proxy \"http://proxy.test\";'; echo 'Acquire::x \"1\";'",
        ),
    ):
        path = folder / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@requires("apt-get")
def test_this_host_has_sources() -> None:
    sources = host_sources()
    assert sources.lines
    assert all(line.startswith(f"deb [signed-by={KEYRING}] ") for line in sources.lines)
    assert sources.codename.isalpha()


@pytest.mark.skipif(not KEYRING.exists(), reason="needs debian-archive-keyring")
def test_third_parties_and_other_architectures_stay_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, ROWS)
    sources = host_sources()
    assert sources.lines == (
        f"deb [signed-by={KEYRING}] http://one.test/debian/ bookworm main",
        f"deb [signed-by={KEYRING}] http://two.test/ bookworm-security main",
    )
    assert sources.codename == "bookworm"
    assert sources.options == ('Acquire::http::Proxy "http://proxy.test";',)


def test_another_release_is_had_from_the_same_places() -> None:
    lines = (
        f"deb [signed-by={KEYRING}] http://deb.example/debian trixie main",
        f"deb [signed-by={KEYRING}] http://deb.example/debian trixie-updates main",
        f"deb [signed-by={KEYRING}] http://deb.example/security trixie-security main",
    )
    other = PackageSources(lines, "trixie", ("Acquire::Retries 3;",)).of("bookworm")
    assert other.codename == "bookworm"
    assert other.lines == tuple(line.replace("trixie", "bookworm") for line in lines)
    assert other.options == ("Acquire::Retries 3;",)


def test_a_host_without_debian_indexes_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(tmp_path, monkeypatch, ROWS.splitlines()[-1] + "\n")
    with pytest.raises(SourcesMissing, match="apt-get update"):
        host_sources()


def test_a_host_without_apt_is_unsupported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="no apt-get"):
        host_sources()
