# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A disk image as a raw file, whether it is raw, qcow2, or one of these compressed.

A qcow2 file may name other files of the host as its backing or data file and so carry them off.
Such a file is refused. So is every other kind of file that is known (images/signatures.py): some of
them may name other files as well, and as a raw disk none of them would be what its owner means.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import stat
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from images.signatures import HEAD_BYTES, TAIL_BYTES, FileKind, Remedy, kind_of
from satchel import paths
from satchel.errors import (
    CapacityError,
    IntegrityError,
    NotFoundError,
    UnsupportedError,
    UsageError,
)

_QCOW2_MAGIC = b"QFI\xfb"
_HEADER = struct.Struct(">4sIQIIQI")
"""Magic, version, offset and size of the backing file's name, bits of a cluster, size, encryption.
docs/interop/qcow2.rst of QEMU."""
_VERSIONS, _OLD_QCOW = (2, 3), 1
_CLUSTER_BITS = range(9, 22)
_SIZE_LIMIT = 1 << 48
_SNAPSHOTS_OFFSET, _FEATURES_OFFSET, _LENGTH_OFFSET = 60, 72, 100
_SHORTEST_V2 = 72
_CORRUPT, _EXTERNAL_DATA_FILE = 1 << 1, 1 << 2
_BITMAPS_EXTENSION = 0x23852875
_LEAKS_ONLY = 3
_TAIL = 500
_PIECE = 1 << 20
_HOLE = 1 << 16

logger = logging.getLogger(__name__)

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
"""Runs a program to its end, with its output."""


class DiskImageInvalid(IntegrityError):
    """The disk image cannot be read, or refers to other files."""


@contextlib.contextmanager
def raw_view(image: Path, scratch: Path | None = None, *, as_it_is: bool = False) -> Iterator[Path]:
    """A raw file with the content of `image`: the same file, or a sparse copy of one that is qcow2
    or compressed.

    scratch: where a copy is made; by default the cache folder. It is gone afterwards. as_it_is: it
    is raw, whatever it begins with. What a copy lacks of a qcow2 file is logged. Raises
    NotFoundError, UsageError unless it is a file or a block device, DiskImageInvalid,
    UnsupportedError for other kinds of files and without the program that reads one, CapacityError.
    """
    _refuse_what_has_no_size(image)
    head, kind = (b"", None) if as_it_is else _beginning(image)
    if not (kind or head.startswith(_QCOW2_MAGIC)):
        yield image
        return
    scratch = scratch or paths.cache_dir()
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="raw-", dir=scratch) as folder:
        inner = image
        if kind:
            inner = _decompress(image, kind, Path(folder))
            head, kind = _beginning(inner)
            if kind:
                raise _refusal(image, kind, f"decompressed, it is {kind.name}")
        if not _is_qcow2(inner, head):
            yield inner
            return
        raw = Path(folder) / "raw"
        _convert(inner, raw, _beside)
        yield raw


def virtual_size(image: Path) -> int | None:
    """Return the size of the disk in a qcow2 file, in bytes; None for a raw file. Raises the
    errors of `raw_view`, and UnsupportedError for a compressed file."""
    _refuse_what_has_no_size(image)
    head, kind = _beginning(image)
    if kind:
        raise _refusal(image, kind)
    return _HEADER.unpack_from(head)[5] if _is_qcow2(image, head) else None


def unpack(image: Path, raw: Path, run: Run) -> None:
    """Write the content of a qcow2 file into `raw`, which is there, has its size, and is a hole.

    run: runs qemu-img. Raises as `raw_view` does.
    """
    _convert(image, raw, run, ("-n", "--target-is-zero"))


def _beginning(image: Path) -> tuple[bytes, FileKind | None]:
    """Its first bytes, and how it is compressed. Other kinds of files are refused."""
    with image.open("rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(-min(TAIL_BYTES, file.seek(0, os.SEEK_END)), os.SEEK_END)
        kind = kind_of(head, file.read(TAIL_BYTES))
    if kind and kind.remedy is not Remedy.DECOMPRESS:
        raise _refusal(image, kind)
    return head, kind


def _refusal(image: Path, kind: FileKind, why: str = "") -> UnsupportedError:
    return UnsupportedError(
        f"cannot read {image} as a disk image",
        why=why or f"it is {kind.name}, and neither raw nor qcow2",
        fix=f"{kind.fix(image)}; `satchel-home import --raw` takes it as it is",
    )


def _decompress(image: Path, kind: FileKind, folder: Path) -> Path:
    """The content of a compressed file, as a sparse file in `folder`."""
    content = folder / "content"
    with image.open("rb") as packed, content.open("xb") as out, tempfile.TemporaryFile() as told:
        try:
            running = subprocess.Popen(
                kind.program, stdin=packed, stdout=subprocess.PIPE, stderr=told
            )
        except FileNotFoundError as error:
            raise UnsupportedError(
                f"cannot read {image}",
                why=f"it is {kind.name} and there is no {kind.program[0]}",
                fix=f"install {kind.program[0]}",
            ) from error
        with running:
            assert running.stdout
            try:
                _write_sparse(running.stdout, out)
            except OSError as error:
                running.kill()
                what = f"no space for the content of {image} in {folder}"
                raise CapacityError(what, why=str(error)) from error
            except BaseException:
                running.kill()
                raise
        told.seek(0)
        why = _first_line(told.read().decode(errors="replace"))
    if running.returncode:
        raise DiskImageInvalid(f"cannot decompress {image}", why=why)
    return content


def _write_sparse(source: IO[bytes], out: IO[bytes]) -> None:
    zeros = bytes(_HOLE)
    while piece := source.read(_PIECE):
        for at in range(0, len(piece), _HOLE):
            part = piece[at : at + _HOLE]
            if part == zeros:
                out.seek(_HOLE, os.SEEK_CUR)
            else:
                out.write(part)
    out.truncate()


def _is_qcow2(image: Path, head: bytes) -> bool:
    """False: raw. Raises DiskImageInvalid for one that is damaged or only a part of a disk."""
    if not head.startswith(_QCOW2_MAGIC):
        return False
    _refuse_by_header(image, head)
    _tell_what_stays(image, head)
    return True


def _refuse_what_has_no_size(image: Path) -> None:
    """A pipe would be waited for, and a character device be taken for an empty disk."""
    try:
        mode = image.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"no disk image {image}", why=error.strerror or "") from error
    if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
        raise UsageError(
            f"cannot read {image} as a disk image",
            why="it is neither a file nor a block device",
            fix="name one; write the data of a pipe into a file first",
        )


def _refuse_by_header(image: Path, head: bytes) -> None:
    if len(head) < _SHORTEST_V2:
        raise _not_qcow2(image, "its qcow2 header is cut short")
    _, version, backing, _, cluster_bits, size, encryption = _HEADER.unpack_from(head)
    if version == _OLD_QCOW:
        raise _refusal(image, FileKind("qcow", Remedy.CONVERT))
    if version not in _VERSIONS:
        raise _not_qcow2(image, f"it begins as qcow2 does, but its version would be {version}")
    if cluster_bits not in _CLUSTER_BITS:
        raise _not_qcow2(image, f"its qcow2 header says clusters of 2^{cluster_bits} bytes")
    if not 0 < size <= _SIZE_LIMIT:
        raise _not_qcow2(image, f"its qcow2 header says {size} bytes")
    features = _features(head)[0]
    path = shlex.quote(str(image))
    if backing or features & _EXTERNAL_DATA_FILE:
        raise DiskImageInvalid(
            f"{image} is only a part of a disk",
            why="it names a backing file or a data file",
            fix=f"make it whole: qemu-img convert -O qcow2 {path} WHOLE.qcow2",
        )
    if features & _CORRUPT:
        raise DiskImageInvalid(
            f"cannot read {image} as qcow2",
            why="it is marked as corrupt: a program that used it has found damage in it",
            fix=f"repair a copy of it: qemu-img check -r all {path}",
        )
    if encryption:
        raise DiskImageInvalid(
            f"cannot read {image} as qcow2",
            why="it is encrypted",
            fix="decrypt it: qemu-img convert --object secret,... -O qcow2; `man qemu-img`",
        )


def _not_qcow2(image: Path, why: str) -> DiskImageInvalid:
    fix = "if it is a raw disk that begins so by chance: `satchel-home import --raw`"
    return DiskImageInvalid(f"cannot read {image} as qcow2", why=why, fix=fix)


def _features(head: bytes) -> tuple[int, int]:
    """The incompatible features, and how long the header is. Of a header as long as version 2's."""
    if _HEADER.unpack_from(head)[1] < 3 or len(head) < _LENGTH_OFFSET + 4:
        return 0, _SHORTEST_V2
    features = int.from_bytes(head[_FEATURES_OFFSET : _FEATURES_OFFSET + 8], "big")
    return features, int.from_bytes(head[_LENGTH_OFFSET : _LENGTH_OFFSET + 4], "big")


def _tell_what_stays(image: Path, head: bytes) -> None:
    """Only the present content of the disk is read."""
    snapshots = int.from_bytes(head[_SNAPSHOTS_OFFSET : _SNAPSHOTS_OFFSET + 4], "big")
    for count, name in ((snapshots, "snapshots"), (_bitmaps(head), "dirty bitmaps")):
        if count:
            logger.warning(
                "%s stays as it is with its %s (%d): they are not imported; "
                "`qemu-img info` lists them",
                image, name, count,
            )  # fmt: skip


def _bitmaps(head: bytes) -> int:
    """How many the extensions of the header name."""
    at = _features(head)[1]
    while len(head) >= at + 12:
        kind, length, count = struct.unpack_from(">III", head, at)
        if kind == 0:
            break
        if kind == _BITMAPS_EXTENSION:
            return int(count)
        at += 8 + -(-length // 8) * 8
    return 0


def _convert(image: Path, raw: Path, run: Run, options: Sequence[str] = ()) -> None:
    """A file that is cut short would convert without an error, so it is checked before."""
    checked = _qemu_img(image, run, "check", "-q", "-f", "qcow2", str(image.resolve()))
    if checked.returncode not in (0, _LEAKS_ONLY):
        why = _first_line(checked.stderr or checked.stdout)
        raise DiskImageInvalid(f"cannot read {image} as qcow2", why=why)
    kinds = ("-f", "qcow2", "-O", "raw", "-S", "4k")
    made = _qemu_img(image, run, "convert", *kinds, *options, str(image.resolve()), str(raw))
    if made.returncode == 0:
        return
    why = made.stderr.strip()[-_TAIL:]
    if "No space left" in why or "File too large" in why:
        raise CapacityError(f"no space for the content of {image} in {raw.parent}", why=why)
    raise DiskImageInvalid(f"cannot read {image} as qcow2", why=why)


def _first_line(said: str) -> str:
    """A damaged image has qemu-img complain of every cluster."""
    lines = said.strip().splitlines() or [""]
    more = f" (and {len(lines) - 1} lines more)" if len(lines) > 1 else ""
    return lines[0][:_TAIL] + more


def _beside(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """On this host as it is."""
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _qemu_img(image: Path, run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return run(["qemu-img", *arguments])
    except FileNotFoundError as error:
        why = "it is qcow2 and there is no qemu-img"
        raise UnsupportedError(f"cannot read {image}", why=why, fix="install qemu-utils") from error
