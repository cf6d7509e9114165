# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The tools that people use on NBD exports work on ours."""

import json
import subprocess
from pathlib import Path

from chunkstore import Store, TableRoot
from satchel.ids import BLOCK_SIZE
from tests.needs import requires
from tests.volumes.conftest import Attach
from volumes import VolumeServer, create_volume, local_resolver


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(arg) for arg in argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@requires("nbdkit", "nbdinfo")
def test_nbdinfo_lists_exports(store: Store, root: TableRoot, short_path: Path) -> None:
    volumes = [
        create_volume(short_path, "ram", root),
        create_volume(short_path, "disk0", root, read_only=True),
    ]
    packs, resolver = store.packs_path, local_resolver(store)
    server = VolumeServer.start(short_path, packs, volumes, resolver)
    try:
        listed = json.loads(run("nbdinfo", "--json", "--list", server.uri("").rstrip("/")))
        exports = {export["export-name"]: export for export in listed["exports"]}
        assert set(exports) == {"ram", "disk0"}
        assert exports["ram"]["export-size"] == root.size
        assert exports["ram"]["is_read_only"] is False
        assert exports["disk0"]["is_read_only"] is True
        for able in ("can_multi_conn", "can_flush", "can_fua", "can_trim", "can_zero"):
            assert exports["ram"][able] is True
        assert exports["ram"]["block_size_preferred"] == BLOCK_SIZE
        unnamed = subprocess.run(["nbdinfo", server.uri("")], capture_output=True, check=False)
        assert unnamed.returncode != 0
    finally:
        server.stop(remove=True)


@requires("nbdkit", "nbdinfo")
def test_zero_blocks_are_holes_once_known(attach: Attach, image: bytes) -> None:
    attachment = attach()
    before = json.loads(run("nbdinfo", "--json", "--map", attachment.uri))
    assert [(extent["offset"], extent["type"]) for extent in before] == [(0, 0)]
    with attachment.connect() as client:
        client.read(0, len(image))
    after = json.loads(run("nbdinfo", "--json", "--map", attachment.uri))
    assert sum(extent["length"] for extent in after) == len(image)
    for extent in after:
        content = image[extent["offset"] :][: extent["length"]]
        assert (extent["type"] == 3) == (not content.strip(b"\0"))
    assert len(after) > 10


@requires("nbdkit", "nbdcopy")
def test_nbdcopy_fetches_all_of_it(attach: Attach, image: bytes, tmp_path: Path) -> None:
    attachment = attach()
    run("nbdcopy", attachment.uri, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == image
    assert attachment.server.misses.failed == 0


@requires("nbdkit", "nbdcopy")
def test_nbdcopy_into_a_volume(attach: Attach, image: bytes, tmp_path: Path) -> None:
    backwards = tmp_path / "backwards"
    backwards.write_bytes(image[::-1])
    attachment = attach()
    run("nbdcopy", backwards, attachment.uri)
    run("nbdcopy", attachment.uri, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == image[::-1]


@requires("nbdkit", "qemu-img", "qemu-io")
def test_qemu(attach: Attach, image: bytes, tmp_path: Path) -> None:
    attachment = attach()
    run(
        "qemu-io", "-f", "raw", attachment.uri,
        "-c", "write -P 0x5a 0 64k", "-c", "write -z 64k 64k", "-c", "discard 128k 64k",
        "-c", "write -P 0x11 200001 999", "-c", "read -P 0x5a 0 64k", "-c", "read -P 0 64k 128k",
        "-c", "flush",
    )  # fmt: skip
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", attachment.uri, tmp_path / "copy")
    expected = bytearray(image)
    expected[: 64 << 10] = b"\x5a" * (64 << 10)
    expected[64 << 10 : 192 << 10] = bytes(128 << 10)
    expected[200001:201000] = b"\x11" * 999
    copy = (tmp_path / "copy").read_bytes()
    assert copy[: len(image)] == expected
    assert not copy[len(image) :].strip(b"\0")


@requires("nbdkit", "fio")
def test_fio_verifies_its_writes(attach: Attach, tmp_path: Path) -> None:
    attachment = attach()
    size = attachment.volume.size // BLOCK_SIZE * BLOCK_SIZE
    run(
        "fio", "--name=verify", "--ioengine=nbd", f"--uri={attachment.uri}", f"--size={size}",
        "--rw=randwrite", "--bs=4k", "--iodepth=16", "--verify=crc32c", "--minimal",
        cwd=tmp_path,
    )  # fmt: skip
