# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The tree of a share on a real folder: ids that last, and names that lead nowhere else."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from satchel.errors import UnsupportedError
from shares.home import ShareIndexDamaged, Tree
from shares.home.storage import index as index_module
from shares.home.storage.system_calls import RENAME_EXCHANGE, RENAME_NOREPLACE
from shares.node import ROOT, Changes, Extent
from shares.protocol import FileId

UID, GID = os.getuid(), os.getgid()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "shared"
    found.mkdir()
    return found


@pytest.fixture
def tree(tmp_path: Path, folder: Path) -> Iterator[Tree]:
    tree = Tree(folder, tmp_path / "index")
    yield tree
    tree.close()


def make(tree: Tree, name: bytes, parent: FileId = ROOT, content: bytes = b"") -> FileId:
    entry, new = tree.create(parent, name, 0o644, UID, GID, exclusive=True)
    assert new
    file = entry.attributes.file
    tree.write(file, 0, content)
    tree.close_file(file)
    return file


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def refused(number: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == number)


def test_what_a_node_makes_is_in_the_folder(tree: Tree, folder: Path) -> None:
    sub = tree.make_folder(ROOT, b"sub", 0o2750, UID, GID).attributes
    file = make(tree, b"file", sub.file, b"content")
    tree.make_link(ROOT, b"to", b"../../anywhere", UID, GID)
    tree.link(file, ROOT, b"twin")
    assert (folder / "sub/file").read_bytes() == (folder / "twin").read_bytes() == b"content"
    assert (folder / "to").readlink() == Path("../../anywhere")
    assert stat.S_IMODE((folder / "sub").stat().st_mode) == 0o2750
    names = {entry.name: entry.attributes for entry in tree.entries(ROOT)}
    assert set(names) == {b"sub", b"to", b"twin"}
    assert names[b"twin"].file == file and names[b"twin"].links == 2
    assert tree.read_link(names[b"to"].file) == b"../../anywhere"
    assert tree.read(file, 3, 100) == b"tent"
    assert tree.place(file) in (b"sub/file", b"twin")
    assert tree.usage().free > 0
    tree.sync(file)
    tree.sync(sub.file)


def test_ids_outlast_the_process_and_renames(tmp_path: Path, folder: Path) -> None:
    first = Tree(folder, tmp_path / "index")
    sub = first.make_folder(ROOT, b"sub", 0o755, UID, GID).attributes.file
    deep = first.make_folder(sub, b"deep", 0o755, UID, GID).attributes.file
    file = make(first, b"file", deep, b"mine")
    first.rename(ROOT, b"sub", ROOT, b"other", 0)
    first.close()
    second = Tree(folder, tmp_path / "index")
    assert second.read(file, 0, 4) == b"mine"  # by its id alone
    assert second.attributes(deep).file == deep
    assert second.lookup(deep, b"file").attributes.file == file
    assert second.place(file) == b"other/deep/file"
    second.close()


def test_an_id_is_never_given_twice(tmp_path: Path, folder: Path) -> None:
    given: list[FileId] = []
    for _ in range(3):
        tree = Tree(folder, tmp_path / "index")
        for _ in range(20):  # the file system gives the inode's number again
            given.append(make(tree, b"file"))
            tree.unlink(ROOT, b"file")
            with refused(errno.ESTALE):
                tree.attributes(given[-1])
        tree.close()
    assert len(set(given)) == 60


def test_a_file_replaced_behind_its_back_is_another_file(tree: Tree, folder: Path) -> None:
    (folder / "file").write_bytes(b"old")
    old = tree.lookup(ROOT, b"file").attributes.file
    (folder / "file").rename(folder / "kept")
    (folder / "file").write_bytes(b"new")
    assert tree.lookup(ROOT, b"file").attributes.file != old
    with refused(errno.ESTALE):
        tree.attributes(old)  # until somebody looks where it went
    assert tree.lookup(ROOT, b"kept").attributes.file == old
    assert tree.read(old, 0, 10) == b"old"


def test_more_entries_than_ids_are_reserved_at_once(
    tree: Tree, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "RESERVED", 10)
    for number in range(35):
        (folder / str(number)).touch()
    tree._index._below = tree._index._next
    files = [entry.attributes.file for entry in tree.entries(ROOT)]
    assert len(set(files)) == 35
    assert files == [entry.attributes.file for entry in tree.entries(ROOT)]


def test_an_open_file_outlives_its_name(tree: Tree, folder: Path) -> None:
    file = make(tree, b"file", content=b"still here")
    tree.open(file, writes=True)
    assert tree.unlink(ROOT, b"file") == file
    assert not (folder / "file").exists()
    assert tree.read(file, 0, 100) == b"still here"
    assert tree.attributes(file).links == 0
    tree.write(file, 0, b"STILL")
    tree.close_file(file)
    with refused(errno.ESTALE):
        tree.read(file, 0, 100)


def test_rename_replaces_exchanges_and_refuses(tree: Tree, folder: Path) -> None:
    one, two = make(tree, b"one", content=b"1"), make(tree, b"two", content=b"2")
    with refused(errno.EEXIST):
        tree.rename(ROOT, b"one", ROOT, b"two", RENAME_NOREPLACE)
    assert tree.rename(ROOT, b"one", ROOT, b"two", RENAME_EXCHANGE) == two
    assert (folder / "one").read_bytes() == b"2"
    assert tree.lookup(ROOT, b"one").attributes.file == two
    assert tree.read(one, 0, 1) == b"1"
    assert tree.rename(ROOT, b"one", ROOT, b"two", 0) == one
    assert [path.name for path in folder.iterdir()] == ["two"]
    with refused(errno.ESTALE):
        tree.attributes(one)
    with refused(errno.EINVAL):
        tree.rename(ROOT, b"two", ROOT, b"three", 4)


def test_renaming_one_of_two_names_of_a_file_to_the_other_changes_nothing(tree: Tree) -> None:
    file = make(tree, b"one")
    tree.link(file, ROOT, b"two")
    tree.rename(ROOT, b"one", ROOT, b"two", 0)
    assert {entry.name for entry in tree.entries(ROOT)} == {b"one", b"two"}
    assert tree.attributes(file).links == 2


def test_no_link_leads_out_of_the_share(tree: Tree, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("secret")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "key").symlink_to(tmp_path / "secret/key")
    out = tree.lookup(ROOT, b"out").attributes
    key = tree.lookup(ROOT, b"key").attributes
    assert stat.S_ISLNK(out.mode) and stat.S_ISLNK(key.mode)
    with refused(errno.ENOTDIR):
        tree.lookup(out.file, b"key")
    with refused(errno.ENOTDIR):
        tree.entries(out.file)
    for attempt in (
        lambda: tree.open(key.file, writes=False),
        lambda: tree.read(key.file, 0, 10),
        lambda: tree.change(key.file, Changes(size=0)),
    ):
        with pytest.raises(OSError):
            attempt()
    with refused(errno.EOPNOTSUPP):
        tree.change(key.file, Changes(mode=0o777))
    tree.change(key.file, Changes(modified=5 * 10**9))
    assert (tmp_path / "secret/key").read_text() == "secret"
    assert (tmp_path / "secret/key").stat().st_mtime != 5
    with refused(errno.EEXIST):
        tree.create(ROOT, b"key", 0o600, UID, GID, exclusive=True)


def test_a_folder_that_became_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    tree = Tree(folder, tmp_path / "index")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("secret")
    (folder / "sub").mkdir()
    (folder / "sub/key").write_text("mine")
    sub = tree.lookup(ROOT, b"sub").attributes.file
    file = tree.lookup(sub, b"key").attributes.file
    (folder / "sub").rename(folder / "moved")
    (folder / "sub").symlink_to(tmp_path / "secret")
    tree.close()
    again = Tree(folder, tmp_path / "index")
    with refused(errno.ESTALE):
        again.read(file, 0, 10)
    again.close()


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"/", b"a\0b", b"../x", b"x" * 256])
def test_names_that_are_none_are_refused(tree: Tree, name: bytes) -> None:
    file = make(tree, b"file")
    for attempt in (
        lambda: tree.lookup(ROOT, name),
        lambda: tree.create(ROOT, name, 0o600, UID, GID, exclusive=True),
        lambda: tree.make_folder(ROOT, name, 0o700, UID, GID),
        lambda: tree.make_link(ROOT, name, b"x", UID, GID),
        lambda: tree.link(file, ROOT, name),
        lambda: tree.unlink(ROOT, name),
        lambda: tree.remove_folder(ROOT, name),
        lambda: tree.rename(ROOT, b"file", ROOT, name, 0),
        lambda: tree.rename(ROOT, name, ROOT, b"file", 0),
    ):
        with pytest.raises(OSError):
            attempt()
    assert [entry.name for entry in tree.entries(ROOT)] == [b"file"]


def test_names_are_bytes(tree: Tree, folder: Path) -> None:
    name = b"\xff\xfe caf\xc3\xa9 \n"
    file = make(tree, name)
    assert [os.fsencode(path.name) for path in folder.iterdir()] == [name]
    assert tree.lookup(ROOT, name).attributes.file == file
    assert tree.entries(ROOT)[0].name == name


def test_attributes_are_changed_as_asked(tree: Tree, folder: Path) -> None:
    file = make(tree, b"file", content=b"0123456789")
    changed = tree.change(file, Changes(mode=0o4711, size=4, modified=7, accessed=-1))
    assert (stat.S_IMODE(changed.mode), changed.size, changed.modified) == (0o4711, 4, 7)
    assert changed.accessed > 10**18
    tree.extend(file, Extent(6000, 1, 2, 3))
    assert tree.extent(file).size == 6000 and tree.extent(file).modified == 2
    assert (folder / "file").read_bytes() == b"0123" + bytes(5996)


def test_what_is_no_file_is_not_opened(tree: Tree, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    sub = tree.make_folder(ROOT, b"sub", 0o755, UID, GID).attributes.file
    pipe = tree.lookup(ROOT, b"pipe").attributes.file
    with refused(errno.EINVAL):
        tree.open(pipe, writes=False)
    with refused(errno.EISDIR):
        tree.open(sub, writes=False)
    with refused(errno.ENOTEMPTY):
        make(tree, b"in", sub)
        tree.remove_folder(ROOT, b"sub")
    with refused(errno.EPERM):
        tree.link(sub, ROOT, b"twin")
    tree.unlink(ROOT, b"pipe")
    assert not (folder / "pipe").exists()


def test_a_deep_tree_is_found_by_id_and_holds_few_descriptors(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shares.home.storage.tree.FOLDERS_KEPT", 8)
    monkeypatch.setattr("shares.home.storage.tree.FILES_KEPT", 4)
    tree = Tree(folder, tmp_path / "index")
    at, files = ROOT, []
    for level in range(60):
        at = tree.make_folder(at, b"f", 0o755, UID, GID).attributes.file
        files.append(make(tree, b"file", at, b"%d" % level))
    tree.close()
    tree = Tree(folder, tmp_path / "index")
    before = descriptors()
    for level, file in reversed(list(enumerate(files))):
        assert tree.read(file, 0, 9) == b"%d" % level
        assert descriptors() < before + 90
    tree.close()
    assert descriptors() < before


def test_an_index_that_is_none_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "index").write_bytes(b"no index" * 1000)
    with pytest.raises(ShareIndexDamaged):
        Tree(folder, tmp_path / "index")
    (tmp_path / "index").unlink()
    tree = Tree(folder, tmp_path / "index")
    tree._index._base.execute("PRAGMA user_version=3")
    tree.close()
    with pytest.raises(UnsupportedError):
        Tree(folder, tmp_path / "index")


def test_an_index_of_version_1_is_read(tmp_path: Path, folder: Path) -> None:
    """The schema, written out, as docs/formats/share.md has it."""
    (folder / "file").write_bytes(b"x")
    tree = Tree(folder, tmp_path / "scratch")
    root, file = tree._index, tree.lookup(ROOT, b"file").attributes.file
    rows = root._base.execute("SELECT id, inode, birth FROM files").fetchall()
    tree.close()
    base = sqlite3.connect(tmp_path / "index")
    base.executescript(
        "PRAGMA application_id=0x53415449; PRAGMA user_version=1;"
        "CREATE TABLE files (id INTEGER PRIMARY KEY, inode INTEGER NOT NULL,"
        " birth INTEGER NOT NULL, UNIQUE (inode, birth));"
        "CREATE TABLE names (parent INTEGER NOT NULL, name BLOB NOT NULL,"
        " file INTEGER NOT NULL, PRIMARY KEY (parent, name)) WITHOUT ROWID;"
        "CREATE INDEX names_of_file ON names (file);"
        "CREATE TABLE reserved (below INTEGER NOT NULL); INSERT INTO reserved VALUES (5000);"
    )
    moved = [(4711 if number == file else number, inode, birth) for number, inode, birth in rows]
    base.executemany("INSERT INTO files VALUES (?, ?, ?)", moved)
    base.execute("INSERT INTO names VALUES (1, ?, 4711)", (b"file",))
    base.commit()
    base.close()
    tree = Tree(folder, tmp_path / "index")
    assert tree.read(FileId(4711), 0, 1) == b"x"
    assert make(tree, b"new") >= 5000
    assert tree.lookup(ROOT, b"file").attributes.file == 4711
    tree.close()
    base = sqlite3.connect(tmp_path / "index")
    rows = base.execute("SELECT size, modified FROM left_as WHERE file=4711").fetchall()
    assert rows == [(1, str((folder / "file").stat().st_mtime_ns))]
    base.close()
