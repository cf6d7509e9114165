# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from satchel import paths
from satchel.errors import AccessError

BASES = [
    (paths.config_dir, "XDG_CONFIG_HOME", ".config"),
    (paths.data_dir, "XDG_DATA_HOME", ".local/share"),
    (paths.state_dir, "XDG_STATE_HOME", ".local/state"),
    (paths.cache_dir, "XDG_CACHE_HOME", ".cache"),
]


@pytest.mark.parametrize(("folder", "variable", "fallback"), BASES)
def test_a_base_directory_is_taken_from_the_environment(
    folder: Callable[[], Path], variable: str, fallback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/elsewhere")
    assert folder() == Path("/elsewhere/satchel")


@pytest.mark.parametrize(("folder", "variable", "fallback"), BASES)
@pytest.mark.parametrize("empty", [True, False], ids=["empty", "unset"])
def test_a_base_directory_has_its_standard_default(
    folder: Callable[[], Path],
    variable: str,
    fallback: str,
    empty: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/nobody")
    if empty:
        monkeypatch.setenv(variable, "")
    else:
        monkeypatch.delenv(variable, raising=False)
    assert folder() == Path("/nobody") / fallback / "satchel"


def test_the_runtime_folder_is_private_where_there_is_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert paths.runtime_dir() == Path(tempfile.gettempdir()) / f"satchel-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    assert paths.runtime_dir() == Path("/run/user/1/satchel")


def test_a_runtime_folder_that_others_may_change_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        made = paths.runtime_dir()
    finally:
        os.umask(before)
    assert made.stat().st_mode & 0o777 == 0o700
    made.chmod(0o777)
    with pytest.raises(AccessError, match="set XDG_RUNTIME_DIR"):
        paths.runtime_dir()
    made.rename(tmp_path / "elsewhere")
    made.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AccessError, match=str(made)):
        paths.runtime_dir()


@pytest.mark.parametrize(("size", "fits"), [(0, True), (1, False)])
def test_the_limit_of_socket_paths_is_the_kernels(short_path: Path, size: int, fits: bool) -> None:
    name = "s" * (paths.SOCKET_PATH_LIMIT + size - len(str(short_path)) - 1)
    with socket.socket(socket.AF_UNIX) as listener:
        if fits:
            listener.bind(str(short_path / name))
        else:
            with pytest.raises(OSError, match="too long"):
                listener.bind(str(short_path / name))
