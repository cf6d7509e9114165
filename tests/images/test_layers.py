# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Layers of containers: what they add, take away and link, and what no honest one does."""

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from images.layers import LayerInvalid, Layers
from images.tree import Kind
from satchel.errors import CapacityError, SatchelError

SIZE = 1 << 20
MOUNTED = ("/dev", "/proc", "/run")


def member(name: str, content: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=tarfile.DIRTYPE, mode=0o755)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, type=kind, linkname=target)


def archive(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> io.BytesIO:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    made.seek(0)
    return made


def applied(scratch: Path, *layers: Iterable[tuple[tarfile.TarInfo, bytes]]) -> Layers:
    made = Layers(scratch, SIZE, MOUNTED)
    for number, members in enumerate(layers):
        made.apply(archive(members), f"number {number}")
    return made


def contents(layers: Layers) -> dict[str, bytes]:
    files = {path: entry.content for path, entry in layers.tree.items() if entry.content}
    return {path: content.read_bytes() for path, content in files.items()}


def test_a_layer_replaces_and_takes_away_what_is_below_it(tmp_path: Path) -> None:
    layers = applied(
        tmp_path,
        [folder("etc"), member("etc/a", b"1"), member("etc/b", b"2"), member("var/x/y", b"3")],
        [member("etc/a", b"new"), member("etc/.wh.b"), member("var/.wh.x"), member("c", b"4")],
    )
    assert contents(layers) == {"/etc/a": b"new", "/c": b"4"}
    assert set(layers.tree) == {"/etc", "/etc/a", "/var", "/c"}


def test_an_opaque_folder_keeps_what_its_own_layer_has(tmp_path: Path) -> None:
    below = [member("d/old", b"1"), member("d/sub/old", b"2"), member("d/sub/kept", b"3")]
    above = [member("d/sub/kept", b"own"), member("d/.wh..wh..opq"), member("d/new", b"4")]
    assert contents(applied(tmp_path, below, above)) == {"/d/sub/kept": b"own", "/d/new": b"4"}


def test_a_file_takes_the_place_of_a_folder_and_the_other_way_round(tmp_path: Path) -> None:
    layers = applied(
        tmp_path,
        [member("a/b", b"1"), member("c", b"2")],
        [member("a", b"file"), folder("c"), member("c/d", b"3")],
    )
    assert contents(layers) == {"/a": b"file", "/c/d": b"3"}


def test_a_hard_link_is_the_same_file_until_a_layer_replaces_it(tmp_path: Path) -> None:
    linked = [member("a", b"1"), link("b", "a", tarfile.LNKTYPE), link("c", "./a", tarfile.LNKTYPE)]
    layers = applied(tmp_path, linked)
    assert layers.tree["/a"] is layers.tree["/b"] is layers.tree["/c"]
    layers.apply(archive([member("a", b"2")]), "above")
    assert contents(layers) == {"/a": b"2", "/b": b"1", "/c": b"1"}
    assert layers.tree["/b"] is layers.tree["/c"]


def test_capabilities_and_what_users_set_are_kept_and_nothing_else(tmp_path: Path) -> None:
    capability = b"\x01\0\0\x02\0\x04" + bytes(14)
    named = {"security.capability": capability, "user.x": b"y", "security.selinux": b"z"}
    headers = {
        f"SCHILY.xattr.{name}": value.decode("utf-8", "surrogateescape")
        for name, value in named.items()
    }
    layers = applied(tmp_path, [member("ping", b"x", pax_headers=headers)])
    kept = dict(layers.tree["/ping"].attributes)
    assert kept == {"security.capability": capability, "user.x": b"y"}


def test_names_go_through_links_within_the_image_alone(tmp_path: Path) -> None:
    layers = applied(
        tmp_path,
        [folder("usr/bin"), link("bin", "usr/bin"), link("out", "../../../../usr")],
        [member("bin/a", b"1"), member("out/bin/b", b"2"), member("bin/.wh.none")],
    )
    assert contents(layers) == {"/usr/bin/a": b"1", "/usr/bin/b": b"2"}
    assert layers.tree["/bin"].kind is Kind.LINK


def test_what_the_guest_mounts_over_stays_out(tmp_path: Path) -> None:
    null = member("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)
    pipe = member("run/initctl", type=tarfile.FIFOTYPE)
    layers = applied(
        tmp_path, [folder("dev"), null, pipe, member("run/a", b"1"), folder("devices")]
    )
    assert set(layers.tree) == {"/devices"}


@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        ([member("../etc/cron.d/x", b"x")], "leads out of the image"),
        ([member("a/../../x", b"x")], "leads out of the image"),
        ([member("a", b"1"), link("b", "/etc/shadow", tarfile.LNKTYPE)], "not a file there"),
        ([member("a", b"1"), link("b", "../../etc/shadow", tarfile.LNKTYPE)], "leads out"),
        ([link("b", "etc/shadow", tarfile.LNKTYPE)], "not a file there"),
        ([folder("a"), link("b", "a", tarfile.LNKTYPE)], "not a file there"),
        ([member("sda", type=tarfile.BLKTYPE, devmajor=8)], "a device"),
        ([member("c", type=tarfile.CHRTYPE)], "a device"),
        ([member("p", type=tarfile.FIFOTYPE)], "a pipe"),
        ([member("d/../dev/x", type=tarfile.BLKTYPE)], "leads out"),
        ([member("a", b"1"), member("a/b", b"2")], "not a folder"),
        ([link("a", "b"), link("b", "a"), member("a/x", b"1")], "not a folder"),
        ([member("a", uid=(1 << 32) - 1)], "owner"),
        ([member("a" * 256, b"1")], "too long for Linux or"),
        ([member("a/" * 2048 + "b", b"1")], "path .* is too long"),
        ([link("a", "")], "a link to no path"),
    ],
)
def test_what_no_honest_layer_has_is_refused(
    tmp_path: Path, hostile: list[tuple[tarfile.TarInfo, bytes]], why: str
) -> None:
    with pytest.raises(LayerInvalid, match=why):
        applied(tmp_path, hostile)
    assert all(path.name.isdecimal() for path in tmp_path.rglob("*"))


def test_an_archive_larger_than_the_disk_is_refused_before_it_is_written(tmp_path: Path) -> None:
    bomb = io.BytesIO()
    with gzip.open(bomb, "wb") as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        info = tarfile.TarInfo("bomb")
        info.size = 64 << 20
        tar.addfile(info, io.BytesIO(bytes(info.size)))
    assert len(bomb.getvalue()) < 128 << 10
    bomb.seek(0)
    with gzip.open(bomb) as stream, pytest.raises(CapacityError, match="larger disk-mib"):
        Layers(tmp_path, SIZE, MOUNTED).apply(stream, "bomb")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def sparse(name: str, size: int, data: dict[int, bytes], pax: str) -> bytes:
    """An archive of one sparse file. pax: the version of GNU's format, or none for the old one."""
    offsets = [(str(offset), str(len(piece))) for offset, piece in data.items()]
    packed = b"".join(data.values())
    info = tarfile.TarInfo(name)
    if pax == "1.0":
        rows = [str(len(offsets)), *(number for row in offsets for number in row)]
        head = "".join(f"{row}\n" for row in rows).encode()
        packed = head.ljust(-(-len(head) // 512) * 512, b"\0") + packed
        said = {"major": "1", "minor": "0", "name": name, "realsize": str(size)}
    else:
        rows = [number for row in offsets for number in row]
        said = {"size": str(size), "numblocks": str(len(offsets)), "map": ",".join(rows)}
    info.pax_headers = {f"GNU.sparse.{key}": value for key, value in said.items()}
    made = io.BytesIO()
    info.size = len(packed)
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(packed))
    return made.getvalue()


@pytest.mark.parametrize("pax", ["1.0", "0.1"])
def test_a_sparse_file_of_gibs_takes_the_room_of_its_data(tmp_path: Path, pax: str) -> None:
    """A `lastlog`, whose length follows from the largest user number."""
    data = {0: b"root" + bytes(508), 40 << 30: b"user" * 128}
    layers = Layers(tmp_path, SIZE, MOUNTED)
    layers.apply(io.BytesIO(sparse("var/log/lastlog", (40 << 30) + 512, data, pax)), pax)
    content = layers.tree["/var/log/lastlog"].content
    assert content is not None
    assert content.stat().st_size == (40 << 30) + 512
    assert content.stat().st_blocks * 512 <= 16 << 10
    with content.open("rb") as file:
        for offset, piece in data.items():
            file.seek(offset)
            assert file.read(512) == piece


def test_a_sparse_file_that_tar_made_has_its_data_where_it_was(tmp_path: Path) -> None:
    source = tmp_path / "lastlog"
    with source.open("wb") as file:
        for offset in (0, 3 << 20, 9 << 20):
            file.seek(offset)
            file.write(b"%d" % offset + bytes(4000))
        file.truncate(20 << 20)
    for form in ("gnu", "posix"):
        made = tmp_path / f"{form}.tar"
        argv = ["tar", "--sparse", f"--format={form}", "-C", str(tmp_path), "-cf", str(made)]
        argv.append(source.name)
        subprocess.run(argv, check=True)
        scratch = tmp_path / form
        scratch.mkdir()
        layers = Layers(scratch, SIZE, MOUNTED)
        with made.open("rb") as stream:
            layers.apply(stream, form)
        assert contents(layers) == {"/lastlog": source.read_bytes()}


def test_zeros_that_an_archive_has_in_full_take_no_room(tmp_path: Path) -> None:
    """Docker writes a sparse file out; the disk has no room for these zeros."""
    layers = applied(tmp_path, [member("lastlog", bytes(8 << 20) + b"user")])
    content = layers.tree["/lastlog"].content
    assert content is not None
    assert content.read_bytes() == bytes(8 << 20) + b"user"
    assert content.stat().st_blocks * 512 < SIZE


def test_a_sparse_file_with_data_behind_its_end_is_refused(tmp_path: Path) -> None:
    stream = io.BytesIO(sparse("a", 4096, {8192: b"x" * 512}, "0.1"))
    with pytest.raises(LayerInvalid, match="behind its end"):
        Layers(tmp_path, SIZE, MOUNTED).apply(stream, "hostile")


@pytest.mark.parametrize("target", ["/srv/a", "/./srv/a", "/tmp/a", "dev/a"])
def test_a_hard_link_may_name_a_path_of_the_image_in_any_way(tmp_path: Path, target: str) -> None:
    """And the first of its names may be where the guest has something else."""
    place = "/" + target.strip("/.")
    mounted = ("/dev", "/tmp")
    layers = Layers(tmp_path, SIZE, mounted)
    members = [member(place[1:], b"1"), link("b", target, tarfile.LNKTYPE)]
    layers.apply(archive(members), "linked")
    layers.apply(archive([link("srv/c", "b", tarfile.LNKTYPE)]), "above")
    expected = {"/b", "/srv/c"} | ({place} if place.startswith("/srv") else set())
    assert contents(layers) == dict.fromkeys(expected, b"1")


def test_what_dockers_storage_driver_keeps_for_itself_stays_out(tmp_path: Path) -> None:
    layers = applied(tmp_path, [folder(".wh..wh.plnk"), member(".wh..wh.plnk/12.34", b"1")])
    assert not layers.tree


def test_many_small_files_are_counted_together_over_all_layers(tmp_path: Path) -> None:
    half = [member(f"f{n}", bytes(1 << 10)) for n in range(600)]
    with pytest.raises(CapacityError):
        applied(tmp_path, half, half)


def test_a_header_that_never_ends_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("././@PaxHeader")
    info.type, info.size = tarfile.XHDTYPE, 1 << 33
    stream = io.BytesIO(info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 16))
    with pytest.raises(LayerInvalid, match="longer than headers are"):
        Layers(tmp_path, SIZE, MOUNTED).apply(stream, "endless")


def test_an_archive_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    whole = archive([member("a", bytes(4000))]).getvalue()
    with pytest.raises(LayerInvalid, match="ends within a file"):
        Layers(tmp_path, SIZE, MOUNTED).apply(io.BytesIO(whole[:2048]), "short")


HONEST = archive(
    [folder("a"), member("a/b", b"1" * 600), link("c", "a/b"), link("d", "a/b", tarfile.LNKTYPE)]
).getvalue()


@settings(max_examples=100, deadline=None)
@given(changes=st.dictionaries(st.integers(0, len(HONEST) - 1), st.integers(0, 255), max_size=12))
def test_damage_is_an_error_of_ours_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[int, int]
) -> None:
    data = bytearray(HONEST)
    for at, value in changes.items():
        data[at] = value
    scratch = tmp_path_factory.mktemp("layer")
    layers = Layers(scratch, SIZE, MOUNTED)
    try:
        layers.apply(io.BytesIO(data), "damaged")
    except SatchelError:
        return
    assert all(path.startswith("/") and "/../" not in f"{path}/" for path in layers.tree)
