# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Each function of the sources that parses bytes or text has a fuzzer, or a reason why not.

A parser is a function that is named like one, and whose first argument is bytes, text, JSON, a file
or a socket. It has a fuzzer if a sample of the list of parsers leads into it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FrameType

from tests.hostile.test_guests_and_services import PARSERS as GUESTS
from tests.hostile.test_parsers import PARSERS
from tests.hostile.test_strangers import STRANGERS
from tests.repository import tree

NAMED = re.compile(
    r"_*(decode|parse|unpack(ed)?|loads|scan|read|from_bytes|from_json|split)(_\w+)?"
)
GIVEN = re.compile(
    r"(bytes|bytearray|memoryview|str|object|Any|(Mapping|dict)\[str, (Any|str)\]"
    r"|Path|IO\[bytes\]|BinaryIO|socket\.socket)"
)
BESIDE = {"tests", "bench", "papers", "testbed", "scripts", "docs", "debian", "build"}

OWN = "a file of this client's own state, which no stranger writes"
SETTING = "a setting or an argument of the owner"
SPLIT = "an inner step of a parser that has a fuzzer"
PROGRAM = "a program of Debian parses the file, in a cell where a stranger has made it"
ENGINE = "returns bytes of a path; the engine and the media process have their own fuzzers"

WITHOUT = {
    "chunkstore/catalog.py _read": "an entry of the store's own catalog",
    "chunkstore/engines.py MediaEngine.read_file": ENGINE,
    "client/fronts/ports.py LocalPort.parse": SETTING,
    "client/medium/sticks.py _split": "references, cut at their size",
    "client/moves/history.py decode": OWN,
    "client/session/proof.py Proof.read": SPLIT,
    "client/state/kept.py decode_rows": OWN,
    "client/state/last_seen.py KnownCopy.decode": OWN,
    "client/state/last_seen.py LastSeen.decode": OWN,
    "client/state/paths.py decode": OWN,
    "client/state/savings.py decode": OWN,
    "client/state/surrogate_keys.py decode": OWN,
    "homeserver/media/budget.py parse_size": SETTING,
    "homeserver/registry.py Registry._read": "a file of home's own state",
    "homeserver/registry.py read_versioned": "a file of home's own state",
    "homeserver/timetable/record.py _read": "a file of home's own state",
    "hypervisor/qemu/argv.py parse_uri": SETTING,
    "images/containers.py _unpacked": SPLIT,
    "images/filesystem.py read_file": PROGRAM,
    "images/initrd.py _unpacked": "a module of Debian's kernel package",
    "images/raw.py unpack": PROGRAM,
    "images/tree.py _unpack": SPLIT,
    "images/tree.py read_digests": "an archive that mmdebstrap has made",
    "images/tree.py read_tar": "an archive that mmdebstrap has made",
    "media/apart.py ConfinedMedium.read_file": ENGINE,
    "media/medium.py Media._read": ENGINE,
    "media/medium.py Media.read_part": ENGINE,
    "replay/adapters/rfb.py _split": "a batch that this client's own viewer has filled",
    "replica/folder.py read_console": "nothing in it is parsed",
    "satchel/record_file.py RecordFile._read": OWN,
    "shares/mount/journals.py Journals._read": OWN,
    "shares/node/journal/leftovers.py read_left": OWN,
    "shares/node/journal/records.py MountNote.unpack": OWN,
    "shares/node/journal/records.py read_records": OWN,
    "surrogate/tenants/ban_list.py decode_ban_list": "a file of the operator's",
    "uplink/gateway/home_help.py _unpacked": "home's; tests/hostile/test_decompressions.py",
    "uplink/policy/radio.py read_radios": SETTING,
    "uplink/policy/services.py read_description": SETTING,
    "wire/conversation/duplex.py Duplex._read": "tests/wire/test_duplex.py says any bytes to it",
    "wire/http/credentials.py read_credentials": SETTING,
    "wire/ports/egress.py read_destination": "any two bytes are a number",
}


def parsers() -> Iterator[str]:
    """Yield `PATH QUALNAME` of each parser."""
    for path in tree.with_suffix(".py"):
        if path.parts[0] not in BESIDE and len(path.parts) > 1 and "files" not in path.parts:
            yield from (f"{path} {name}" for name in within(ast.parse(tree.text(path)), ""))


def within(scope: ast.Module | ast.ClassDef, prefix: str) -> Iterator[str]:
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            yield from within(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and NAMED.fullmatch(node.name):
            arguments = [a for a in node.args.args if a.arg not in ("self", "cls")]
            first = arguments[0].annotation if arguments else None
            if first is not None and GIVEN.fullmatch(ast.unparse(first).removesuffix(" | None")):
                yield prefix + node.name


def reached() -> set[str]:
    """Return the functions that the samples lead into, as `parsers` names them."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        seen.add(frame.f_code)

    sys.setprofile(note)
    try:
        for parser in [*PARSERS, *STRANGERS, *GUESTS]:
            with suppress(*parser.errors):
                parser.parse(parser.seed)
    finally:
        sys.setprofile(None)
    root = f"{tree.ROOT}/"
    return {f"{code.co_filename.removeprefix(root)} {code.co_qualname}" for code in seen}


def test_each_parser_has_a_fuzzer_or_a_reason() -> None:
    found = set(parsers())
    lacking = found - reached()
    assert len(found) > 70
    assert sorted(lacking - WITHOUT.keys()) == []
    assert sorted(WITHOUT.keys() - lacking) == []
