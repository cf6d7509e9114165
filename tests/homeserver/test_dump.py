# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home dump` of files that are not the engine's."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from chunkstore import Store
from homeserver.cli.dump import command
from media import Media
from replay import Log, Operation
from replica import (
    RESUME,
    STEADY,
    Access,
    Profile,
    Run,
    encode_profile,
    encode_working_set,
    observed,
)
from satchel.ids import OperationNumber
from shares.home.storage import system_calls
from shares.home.storage.index import Index
from shares.node import ROOT
from tests.chunkstore.test_page_changes import GOLDEN as PAGE_CHANGES
from tests.guestshares.test_record import GOLDEN as CALL_RECORD
from tests.shares.home.test_grants import GOLDEN as RIGHTS
from tests.shares.home.test_write_log import GOLDEN as WRITE_LOG


def shown(path: Path) -> list[dict[str, object]]:
    result = CliRunner().invoke(command, [str(path), "--json"])
    assert result.exit_code == 0, result.output
    parts: list[dict[str, object]] = json.loads(result.output)
    return parts


def test_a_working_set(tmp_path: Path) -> None:
    blob = encode_working_set([[Run("ram", 7, 2)]], lambda run: bytes([1]) * 4096 * run.count)
    (tmp_path / "set").write_bytes(blob)
    directory, frame = shown(tmp_path / "set")
    assert directory["kind"] == "directory"
    assert frame["text"] == "8192 bytes: ram 7+2"


def test_a_profile(tmp_path: Path) -> None:
    touched = [Access(7e8, RESUME, "ram", 4, 2), Access(7e8, STEADY, "disk0", 90)]
    (tmp_path / "profile").write_bytes(encode_profile(observed(Profile(), touched, 7e8)))
    whole, *phases = shown(tmp_path / "profile")
    assert whole["kind"] == "profile"
    assert [(part["kind"], part["text"]) for part in phases] == [
        ("resume", "ram 4+2"),
        ("steady", "disk0 90+1"),
    ]


def test_a_pack_is_no_profile_though_it_begins_like_one(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        store.import_bytes(bytes(range(256)) * 16)
    (pack,) = (tmp_path / "store" / "packs").iterdir()
    assert [part["kind"] for part in shown(pack)] == ["header", "record", "record"]


def test_a_segment_of_a_log(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log") as log:
        for number in (1, 2):
            log.append(Operation(OperationNumber(number), 1, 2, b"request"))
    (segment,) = tmp_path.glob("log-*.log")
    with segment.open("ab") as file:
        file.write(b"torn")
    assert [part["kind"] for part in shown(segment)] == ["operation", "operation", "garbage"]


def test_a_description(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"format": "satchel-store", "version": 1}\n')
    assert [part["text"] for part in shown(tmp_path / "store.json")] == ["satchel-store", "1"]


def test_what_a_medium_consists_of(tmp_path: Path) -> None:
    with Media.init(tmp_path) as media:
        media.commit([], [])
        uuid = media.uuid
    described = {part["kind"]: part["text"] for part in shown(tmp_path / "satchel" / "media.json")}
    assert described == {"format": "satchel-media", "version": "3", "uuid": uuid}
    header, checksum = shown(tmp_path / "satchel" / "commits" / "000001.commit")
    assert str(header["text"]).startswith(f"generation 1 of {uuid}")
    assert checksum["kind"] == "checksum"


A = hashlib.sha256(b"a").hexdigest()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            CALL_RECORD,
            [
                "record of calls of version 1",
                f"operation 5: call {A}, asked 2 times before; 18 bytes of data",
                "operation 5 is finished; 0 bytes of data",
            ],
        ),
        (
            WRITE_LOG,
            [
                "write log of version 1",
                "file 7: written, block 1 at 904; 3 bytes of data",
                "file 7: over, 1 blocks from 1 on; 0 bytes of data",
            ],
        ),
        (
            RIGHTS,
            [
                "record of rights of version 1",
                "file 7: 3 blocks from -1 on, under grant 9; 0 bytes of data",
            ],
        ),
    ],
    ids=["calls", "write-log", "rights"],
)
def test_a_file_that_grows_by_records_is_shown_to_its_torn_end(
    tmp_path: Path, data: bytes, said: list[str]
) -> None:
    path = tmp_path / "records"
    path.write_bytes(data + b"torn")
    *parts, torn = shown(path)
    assert [part["text"] for part in parts] == said
    assert (torn["kind"], torn["offset"], torn["size"]) == ("garbage", len(data), 4)
    assert path.read_bytes() == data + b"torn"
    path.write_bytes(data)
    assert shown(path) == parts


def test_changes_of_pages(tmp_path: Path) -> None:
    (tmp_path / "pages").write_bytes(PAGE_CHANGES)
    (page,) = shown(tmp_path / "pages")
    assert (page["offset"], page["size"]) == (8, len(PAGE_CHANGES) - 8)
    assert page["text"] == f"of {'01' * 20}: 1 {'02' * 20}, 63 {'00' * 20}"


def test_an_operation_by_itself_and_a_signature(tmp_path: Path) -> None:
    (tmp_path / "operation").write_bytes(Operation(OperationNumber(7), 5, 6, b"request").encode())
    (part,) = shown(tmp_path / "operation")
    assert part["text"] == "7, 7 bytes at 5 ns"
    (tmp_path / "a.sig").write_bytes(b"-----BEGIN SSH SIGNATURE-----\nAAAA\n")
    assert [part["kind"] for part in shown(tmp_path / "a.sig")] == ["signature"]


def test_the_index_of_a_share_beside_who_has_it_open(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    index = Index(tmp_path / "index", system_calls.status(folder))
    try:
        os.mkdir("a", dir_fd=folder)
        file = index.of(system_calls.status(folder, b"a"))
        index.found(ROOT, b"a", file)
        before = sorted(tmp_path.iterdir())
        parts = shown(tmp_path / "index")
        assert sorted(tmp_path.iterdir()) == before
    finally:
        index.close()
        os.close(folder)
    assert [part["kind"] for part in parts] == ["files", "files", "names", "reserved"]
    assert parts[2]["text"] == f"{ROOT}, b'a', {file}"
