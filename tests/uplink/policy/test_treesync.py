# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A mirror has what the service has, whatever the service tells, after any changes."""

import hashlib
import random
from collections.abc import Callable
from urllib.parse import unquote
from xml.sax.saxutils import escape

import pytest

from uplink.policy import DavQuestion, Mirror, NoTree, TreeSync, read_listing, read_members

QUESTION = b'<propfind xmlns="DAV:"><prop><resourcetype/><getetag/></prop></propfind>'


class Cloud:
    """A tree of folders in memory. tells: what the service can do; shallow: it takes depth infinity
    for 1"""

    def __init__(self, tells: str, *, shallow: bool = False) -> None:
        self.tells, self.shallow = tells, shallow
        self.files: dict[str, str] = {}
        self.folders = {"/dav"}
        self.past: dict[str, dict[str, dict[str, str]]] = {}
        self.asked: list[DavQuestion] = []

    def ask(self, question: DavQuestion) -> tuple[int, bytes]:
        self.asked.append(question)
        folder = unquote(question.path)
        if folder not in self.folders:
            return 404, b""
        if question.method == "REPORT":
            return self._report(folder, question.body) if self.tells == "sync" else (403, b"")
        if question.depth == "infinity" and self.tells == "folders":
            return 403, b""
        deep = question.depth == "infinity" and not self.shallow
        paths = [p for p in (*self.folders, *self.files) if self._below(p, folder, deep=deep)]
        if question.depth == "0":
            paths = []
        return 207, self._list([folder, *sorted(paths)])

    def _report(self, folder: str, body: bytes) -> tuple[int, bytes]:
        token = body.partition(b"sync-token>")[2].partition(b"<")[0].decode()
        if token not in self.past.get(folder, {}):
            return 403, b""
        then, now = self.past[folder][token], self._members(folder)
        changed = [path for path in now if then.get(path) != now[path]]
        gone = [path for path in then if path not in now]
        answer = "".join(
            f"<response><href>{escape(path)}</href><status>HTTP/1.1 404 Gone</status></response>"
            for path in gone
        )
        end = f"{answer}<sync-token>{self._token(folder)}</sync-token></multistatus>"
        return 207, self._list(changed).replace(b"</multistatus>", end.encode())

    def _below(self, path: str, folder: str, *, deep: bool) -> bool:
        inside = path.startswith(folder + "/")
        return inside and (deep or "/" not in path[len(folder) + 1 :])

    def _members(self, folder: str) -> dict[str, str]:
        there = {path: "folder" for path in self.folders if self._below(path, folder, deep=False)}
        return there | {p: e for p, e in self.files.items() if self._below(p, folder, deep=False)}

    def _token(self, folder: str) -> str:
        members = self._members(folder)
        token = "t" + hashlib.sha256(repr(sorted(members.items())).encode()).hexdigest()[:12]
        self.past.setdefault(folder, {})[token] = members
        return token

    def _list(self, paths: list[str]) -> bytes:
        return f'<multistatus xmlns="DAV:">{"".join(map(self._one, paths))}</multistatus>'.encode()

    def _one(self, path: str) -> str:
        props = f"<getetag>&quot;{self.files.get(path)}&quot;</getetag>"
        if path in self.folders:
            props = "<resourcetype><collection/></resourcetype>"
            if self.tells == "sync":
                props += f"<sync-token>{self._token(path)}</sync-token>"
            if self.tells == "etags":
                there = {folder: "" for folder in self.folders} | self.files
                deep = sorted(each for each in there.items() if each[0].startswith(path + "/"))
                etag = hashlib.sha256(repr(deep).encode()).hexdigest()[:12]
                props += f"<getetag>&quot;{etag}&quot;</getetag>"
        status = "<status>HTTP/1.1 200 OK</status>"
        found = f"<propstat><prop>{props}</prop>{status}</propstat>"
        return f"<response><href>{escape(path)}</href>{found}</response>"

    def change(self, draw: random.Random) -> None:
        """Something: a new folder or file, another content, or something goes."""
        parent, name = draw.choice(sorted(self.folders)), draw.choice(["abcdef", "&", "ü"])
        path = f"{parent}/{name}{draw.randrange(3)}"
        kind = draw.randrange(4)
        if kind == 0 and path not in self.files and parent.count("/") < 5:
            self.folders.add(path)
        elif kind == 1 and path not in self.folders:
            self.files[path] = draw.randbytes(4).hex()
        elif kind == 2 and self.files:
            self.files[draw.choice(sorted(self.files))] = draw.randbytes(4).hex()
        elif kind == 3:
            self.files = {
                p: e for p, e in self.files.items() if not (p + "/").startswith(path + "/")
            }
            self.folders = {p for p in self.folders if not (p + "/").startswith(path + "/")}

    def truth(self) -> dict[str, tuple[bool, str]]:
        folders = {path: (True, "") for path in self.folders}
        return folders | {path: (False, f'"{etag}"') for path, etag in self.files.items()}


def seen(mirror: Mirror) -> dict[str, tuple[bool, str]]:
    entries = read_listing(mirror.whole())
    return {e.path: (e.folder, "" if e.folder else e.etag) for e in entries}


@pytest.mark.parametrize("tells", ["sync", "etags", "tree", "folders"])
@pytest.mark.parametrize("seed", range(12))
def test_the_mirror_is_what_the_service_has(tells: str, seed: int) -> None:
    draw, cloud = random.Random(f"{tells} {seed}"), Cloud(tells)
    sync = TreeSync("/dav", QUESTION, tells if tells in ("sync", "etags") else "", thorough=True)
    copies = [Mirror("/dav")]
    states = [0]
    for _ in range(30):
        for _ in range(draw.randrange(6)):
            cloud.change(draw)
        assert sync.refresh(cloud.ask)
        assert seen(sync.mirror) == cloud.truth()
        for number, copy in enumerate(copies):
            if draw.random() < 0.5:
                told, token = read_members(sync.mirror.since(states[number], "token"))
                copy.apply(told)
                states[number] = sync.mirror.state
                assert token == "token"
                assert seen(copy) == cloud.truth()
        if draw.random() < 0.1:
            copies.append(Mirror("/dav"))
            states.append(0)


def planted(tells: str, *, shallow: bool = False) -> Cloud:
    cloud = Cloud(tells, shallow=shallow)
    for number in range(5):
        cloud.folders.add(f"/dav/{number}")
        cloud.files[f"/dav/{number}/file"] = "first"
    return cloud


@pytest.mark.parametrize(("tells", "most"), [("sync", 2), ("etags", 3)])
def test_one_changed_folder_costs_few_questions(tells: str, most: int) -> None:
    cloud = planted(tells)
    sync = TreeSync("/dav", QUESTION, tells, thorough=False)
    assert sync.refresh(cloud.ask)
    cloud.files["/dav/3/file"] = "second"
    cloud.asked.clear()
    assert sync.refresh(cloud.ask)
    assert len(cloud.asked) <= most
    assert seen(sync.mirror) == cloud.truth()


def test_a_service_that_takes_infinity_for_one_is_not_believed() -> None:
    cloud = planted("tree", shallow=True)
    assert not TreeSync("/dav", QUESTION, thorough=False).refresh(cloud.ask)
    thorough = TreeSync("/dav", QUESTION, thorough=True)
    assert thorough.refresh(cloud.ask)
    assert seen(thorough.mirror) == cloud.truth()


def test_what_a_service_tells_of_other_places_is_not_believed() -> None:
    cloud = planted("tree")
    listed: Callable[[DavQuestion], tuple[int, bytes]] = lambda question: (  # noqa: E731
        207,
        cloud.ask(question)[1].replace(b"/dav/3", b"/etc"),
    )
    sync = TreeSync("/dav", QUESTION, thorough=True)
    assert sync.refresh(listed)
    assert not [path for path in seen(sync.mirror) if not path.startswith("/dav")]


def test_a_password_that_is_refused_is_no_service_without_trees() -> None:
    sync = TreeSync("/dav", QUESTION, thorough=False)
    with pytest.raises(NoTree):
        sync.refresh(lambda question: (401, b""))
    assert sync.refresh(planted("tree").ask)


@pytest.mark.parametrize("tells", ["infinity", "etags", "sync"])
@pytest.mark.parametrize("named", [False, True])
def test_room_that_is_told_unasked_changes_nothing(tells: str, named: bool) -> None:
    """A service that says with each folder how much room is left, which others take meanwhile."""
    cloud = Cloud(tells)
    cloud.folders.add("/dav/a")
    left = 0

    def ask(question: DavQuestion) -> tuple[int, bytes]:
        nonlocal left
        left += 1
        status, body = cloud.ask(question)
        told = f'<quota-used-bytes xmlns="DAV:">{left}</quota-used-bytes></prop>'
        return status, body.replace(b"</prop>", told.encode())

    question = QUESTION.replace(b"<prop>", b"<prop><quota-used-bytes/>") if named else QUESTION
    sync = TreeSync("/dav", question, "" if tells == "infinity" else tells, thorough=True)
    assert sync.refresh(ask)
    before = sync.mirror.state
    assert (b"quota-used-bytes" in sync.mirror.whole()) is named
    assert sync.refresh(ask)
    assert named or sync.mirror.state == before
