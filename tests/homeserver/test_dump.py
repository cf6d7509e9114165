# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel-home dump` of files that are not the engine's."""

import json
from pathlib import Path

from click.testing import CliRunner

from chunkstore import Media, Store
from homeserver.cli.dump import command
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
