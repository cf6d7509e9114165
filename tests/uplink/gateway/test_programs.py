# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What people use, unmodified: each does through uplink what it does without."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.needs import requires
from tests.uplink.gateway.site import PASSWORD, USER, Site, site
from tests.waiting import eventually

pytestmark = requires("rclone", "curl")


@requires("cadaver")
def test_cadaver(cloud: Site) -> None:
    (cloud.folder / "report").write_bytes(b"mine" * 5000)
    (cloud.folder / ".netrc").write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    (cloud.folder / ".netrc").chmod(0o600)
    said = _cadaver(
        cloud,
        *("ls", "mkcol letters", "cd letters", f"put {cloud.folder}/report", "ls"),
        *(f"get report {cloud.folder}/again", "copy report other", "move other third", "ls"),
    )
    assert "failed" not in said
    assert (cloud.folder / "again").read_bytes() == b"mine" * 5000
    folder = cloud.server.files / "letters"
    assert sorted(path.name for path in folder.iterdir()) == ["report", "third"]
    assert (folder / "third").read_bytes() == b"mine" * 5000
    assert "failed" not in _cadaver(cloud, "rmcol letters")
    assert not folder.exists()


def _cadaver(cloud: Site, *commands: str) -> str:
    done = subprocess.run(
        ["cadaver", cloud.url + "/"],
        input="\n".join([*commands, "quit"]) + "\n",
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"HOME": str(cloud.folder)},
    )
    return done.stdout + done.stderr


@requires("mount.davfs", "fuse", "root")
def test_davfs2(short_path: Path) -> None:
    short_path.chmod(0o755)
    with site(short_path, settings='background = ["mount.davfs"]') as cloud:
        cloud.hold()
        (cloud.server.files / "old").write_bytes(b"old")
        with _mounted(cloud) as mount:
            assert (mount / "old").read_bytes() == b"old"
            (mount / "folder").mkdir()
            (mount / "folder" / "file").write_bytes(b"content" * 9000)
            (mount / "old").unlink()
        cloud.flush()
        assert (cloud.server.files / "folder" / "file").read_bytes() == b"content" * 9000
        assert not (cloud.server.files / "old").exists()
        assert not cloud.states().keys() - {"confirmed"}
        with _mounted(cloud) as mount:
            assert (mount / "folder" / "file").read_bytes() == b"content" * 9000


@contextlib.contextmanager
def _mounted(cloud: Site) -> Iterator[Path]:
    mount, secrets = cloud.folder / "mount", cloud.folder / "davfs-secrets"
    cache = cloud.folder / "davfs"
    for folder in (mount, cache):
        folder.mkdir(exist_ok=True)
    cache.chmod(0o777)  # davfs2 gives up being root
    secrets.write_text(f"{cloud.url}/ {USER} {PASSWORD}\n")
    secrets.chmod(0o600)
    settings = cloud.folder / "davfs.conf"
    settings.write_text(f"secrets {secrets}\ncache_dir {cache}\ndelay_upload 0\nuse_locks 0\n")
    argv = ["mount", "-t", "davfs", "-o", f"conf={settings}", cloud.url + "/", str(mount)]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    try:
        yield mount
    finally:
        subprocess.run(["umount", str(mount)], check=True, capture_output=True, timeout=120)
        assert eventually(lambda: not os.path.ismount(mount))


@requires("restic")
def test_restic(cloud: Site) -> None:
    source = cloud.folder / "letters"
    source.mkdir()
    for number in range(20):
        (source / f"letter {number}").write_bytes(os.urandom(20_000))
    _restic(cloud, "init")
    _restic(cloud, "backup", str(source))
    held = cloud.ask("stats")["held"]
    cloud.flush()
    assert set(cloud.states()) <= {"confirmed"}
    _restic(cloud, "check", "--read-data")
    _restic(cloud, "restore", "latest", "--target", str(cloud.folder / "back"))
    for path in source.iterdir():
        back = cloud.folder / "back" / path.relative_to("/")
        assert back.read_bytes() == path.read_bytes()
    assert held > 0


def _restic(cloud: Site, *words: str) -> None:
    """With rclone for its way to WebDAV, as restic's manual says."""
    (cloud.folder / "restic-password").write_text("secret")
    own = ["--password-file", str(cloud.folder / "restic-password")]
    own += ["--cache-dir", str(cloud.folder / "restic-cache"), "-r", "rclone:up:backup"]
    done = cloud.run("restic", *own, *words, check=False)
    assert done.returncode == 0, done.stderr
