# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Trees from tar archives, and ext4 file systems from trees."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from images.filesystem import write_ext4
from images.tree import Entry, Kind, Tree, base_first, read_digests, read_tar, with_folders
from satchel.errors import CapacityError, UsageError
from tests.needs import requires

NOW = 1_700_000_000
SIZE = 64 << 20


def archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), 0o644, NOW - 1000
            tar.addfile(member, io.BytesIO(content))
    return path


def tree_of(folder: Path, files: dict[str, bytes]) -> Tree:
    contents = folder / "contents"
    contents.mkdir(exist_ok=True)
    tree: Tree = {}
    for number, (path, content) in enumerate(files.items()):
        (contents / str(number)).write_bytes(content)
        tree[path] = Entry(Kind.FILE, 0o644, 3, 4, NOW - 5, contents / str(number))
    return with_folders(tree, NOW)


def debugfs(disk: Path, request: str) -> str:
    path = "/usr/sbin:/sbin:/usr/bin:/bin"
    argv = ["debugfs", "-R", request, str(disk)]
    return subprocess.run(
        argv, check=True, capture_output=True, text=True, env={"PATH": path}
    ).stdout


@requires("debugfs", "mke2fs")
def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path, {"/a b/c'd/e": b"text\n", "/a b/zero": bytes(70_000), "/top": b"x" * 200_000}
    )
    tree["/link"] = Entry(Kind.LINK, 0o777, modified=NOW, target="a b/zero")
    tree["/long"] = Entry(Kind.LINK, 0o777, modified=NOW, target="t" * 300)
    tree["/state"] = Entry(Kind.FOLDER, 0o750, 33, 34, NOW)
    disk = tmp_path / "disk"
    write_ext4(disk, SIZE, tree, tmp_path, NOW)
    assert disk.stat().st_size == SIZE
    assert disk.stat().st_blocks * 512 < SIZE / 8
    assert debugfs(disk, 'cat "/a b/c\'d/e"') == "text\n"
    stat = debugfs(disk, 'stat "/a b/c\'d/e"')
    assert "User:     3   Group:     4" in stat
    assert "Mode:  0644" in stat
    listing = debugfs(disk, "ls -l /")
    assert "40750 (2)     33     34" in listing
    assert 'Fast link dest: "a b/zero"' in debugfs(disk, "stat /link")
    fsck = subprocess.run(["/sbin/e2fsck", "-fn", disk], check=False, capture_output=True)
    assert fsck.returncode == 0, fsck.stdout


@requires("debugfs", "mke2fs")
def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        tree = tree_of(folder, {f"/d{n % 7}/f{n}": b"%d" % n * 999 for n in range(300)})
        write_ext4(folder / "disk", SIZE, tree, folder, NOW)
        made.append((folder / "disk").read_bytes())
    assert made[0] == made[1]


@requires("debugfs", "mke2fs")
def test_a_disk_that_is_too_small_is_a_matter_of_capacity(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {"/big": bytes(range(256)) * (9 << 12)})
    with pytest.raises(CapacityError, match="larger disk-mib"):
        write_ext4(tmp_path / "disk", 8 << 20, tree, tmp_path, NOW)


ODD = [
    'a"b',
    '"',
    "a\nrm /etc/passwd",
    "\n",
    "Icon\r",
    "<8>",
    " x ",
    "a\tb",
    "#a",
    "-f",
    "\\n",
    "\udcff",
]


@requires("debugfs", "mke2fs")
def test_names_and_links_may_have_every_character(tmp_path: Path) -> None:
    files = {f"/d/{name}": name.encode("utf-8", "surrogateescape") for name in ODD}
    files |= {f"/in\n{n}/{name}": b"in" for n in range(3) for name in ODD}
    files |= {f"/d/{letter}": b"taken" for letter in "abcdef"}
    tree = tree_of(tmp_path, files)
    for number, target in enumerate([*ODD, "l\n" * 29, "l\n" * 30, '"' * 2000 + "\n"]):
        tree[f"/link{number}\n"] = Entry(Kind.LINK, 0o777, modified=NOW, target=target)
    tree["/hard\n"] = tree["/d/\n"]
    disk, at = tmp_path / "disk", tmp_path / "at"
    at.mkdir()
    write_ext4(disk, SIZE, tree, tmp_path, NOW)
    debugfs(disk, f"rdump / {at}")
    found: dict[str, str | bytes] = {}
    for folder, names, contained in os.walk(at):
        for path in [Path(folder, name) for name in [*contained, *names]]:
            real = f"/{path.relative_to(at)}"
            if path.is_symlink():
                found[real] = str(path.readlink())
            elif path.is_file():
                found[real] = path.read_bytes()
                assert path.stat().st_mtime == tree[real].modified
    expected = files | {"/hard\n": files["/d/\n"]}
    targets = {path: one.target for path, one in tree.items() if one.kind is Kind.LINK}
    assert found == expected | targets


@requires("debugfs", "mke2fs")
@pytest.mark.parametrize("name", ["/a\0b", "/" + "a/" * 4000 + "b"])
def test_a_path_that_no_system_takes_is_refused(tmp_path: Path, name: str) -> None:
    content = tmp_path / "x"
    content.touch()
    tree = {name: Entry(Kind.FILE, content=content)}
    with pytest.raises(UsageError, match="cannot put"):
        write_ext4(tmp_path / "disk", SIZE, tree, tmp_path, NOW)


def test_a_tar_is_read_without_what_is_excluded(tmp_path: Path) -> None:
    files = {"./usr/bin/a": b"a", "./usr/share/doc/a/copyright": b"c", "./usr/share/docs": b"d"}
    tree = read_tar(archive(tmp_path / "tar", files), tmp_path, ["/usr/share/doc"])
    assert sorted(tree) == ["/usr/bin/a", "/usr/share/docs"]
    entry = tree["/usr/bin/a"]
    assert entry.content is not None
    assert entry.content.read_bytes() == b"a"
    assert entry.modified == NOW - 1000


def test_what_a_base_has_in_usr_comes_first_and_in_its_order(tmp_path: Path) -> None:
    base = archive(
        tmp_path / "base", {f"./{n}": b"1" for n in ("usr/z", "etc/x", "usr/b", "usr/a")}
    )
    files = {"./etc/x": b"1", "./usr/0": b"1", "./usr/a": b"1", "./usr/b": b"2", "./usr/z": b"1"}
    tree = read_tar(archive(tmp_path / "tar", files), tmp_path)
    order = list(base_first(tree, read_digests(base)))
    assert order == ["/usr/z", "/usr/a", "/etc/x", "/usr/0", "/usr/b"]
