# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a mirror is made to have what the service has, with as few bytes as the service allows.

| the service | what is asked |
|---|---|
| its folders have tokens (RFC 6578) | of a folder whose token is another, what changed |
| etags of folders change with all below them (Nextcloud) | only folders whose etag is another |
| it answers for a whole tree | everything, with one question |
| none of these | every folder; only who is asked to be `thorough` does that |

Which of these a service is, it is asked once. For example, Radicale's `/me/` is asked with depth 1;
of its 30 folders one has another token, and so one more question gets that folder's changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from satchel.errors import SatchelError
from uplink.policy.davxml import (
    BadDavXml,
    DavMember,
    ask_for_etags,
    ask_for_tokens,
    read_members,
    sync_question,
)
from uplink.policy.mirror import Mirror

FOLDERS = 20_000
"""That one refresh asks for at most."""

MULTISTATUS = 207


@dataclass(frozen=True)
class DavQuestion:
    """method: PROPFIND or REPORT; path: as `plain` makes it"""

    method: str
    path: str
    depth: str
    body: bytes


Ask = Callable[[DavQuestion], tuple[int, bytes]]
"""Puts a question to the service; status and body of the answer."""


class Deltas(Enum):
    """By what a service tells what has changed."""

    SYNC = "sync"
    ETAGS = "etags"
    TREE = "tree"
    WALK = "walk"
    NONE = "none"


class NoTree(SatchelError):
    """The service does not answer questions about the tree."""

    def __init__(self, status: int) -> None:
        super().__init__("the service does not tell a tree", why=f"it answered {status}")
        self.status = status


class TreeSync:
    """Keeps one mirror. One thread at a time.

    What room folders have is another number each time, and some services say it unasked, which they
    should not (RFC 4331, section 4). The mirror has it only where the question names it.

    deltas: what the service was found to be; None before the first refresh
    """

    def __init__(self, root: str, question: bytes, hint: str = "", *, thorough: bool) -> None:
        """root: of the tree, as the paths of the service's addresses are; question: for properties,
        of each member; hint: what the service's description says: `sync`, `etags` or nothing"""
        self.mirror = Mirror(root)
        self.deltas: Deltas | None = None
        self._question, self._hint, self._thorough = question, hint, thorough
        self._quotas = b"quota-" in question

    def refresh(self, ask: Ask) -> bool:
        """Make the mirror have what the service has, at this moment or later. False where it does
        not tell, which `deltas` says from then on. Raises NoTree, BadDavXml, TreeTooLarge and what
        `ask` raises; the mirror is then as it was, or in part newer."""
        if self.deltas is None:
            self.deltas = self._look(ask)
        elif self.deltas is Deltas.ETAGS:
            self._compare_root(ask)
        elif self.deltas is Deltas.TREE:
            self.mirror.replace(self._tree(ask))
        elif self.deltas is not Deltas.NONE:
            self._walk(ask)
        return self.deltas is not Deltas.NONE

    def _look(self, ask: Ask) -> Deltas:
        if self._hint == "etags":
            self._walk(ask, propagating=True)
            return Deltas.ETAGS
        if self._hint == "sync":
            told = self._folder(ask, self.mirror.root)
            if any(m.token for m in told if m.folder and m.path != self.mirror.root):
                self._walk(ask)
                return Deltas.SYNC
        try:
            tree = self._tree(ask)
        except NoTree as error:
            if error.status in (401, 404, 407, 429) or error.status >= 500:
                raise
            tree = []
        if tree and _is_tree(tree, self.mirror.root):
            self.mirror.replace(tree)
            return Deltas.TREE
        if not self._thorough:
            return Deltas.NONE
        self._walk(ask)
        return Deltas.WALK

    def _tree(self, ask: Ask) -> list[DavMember]:
        body = ask_for_etags(self._question)
        return self._told(ask, DavQuestion("PROPFIND", self.mirror.root, "infinity", body))

    def _folder(self, ask: Ask, folder: str, depth: str = "1") -> list[DavMember]:
        body = self._question
        body = ask_for_tokens(body) if self._hint == "sync" else ask_for_etags(body)
        return self._told(ask, DavQuestion("PROPFIND", folder, depth, body))

    def _told(self, ask: Ask, question: DavQuestion) -> list[DavMember]:
        status, body = ask(question)
        if status != MULTISTATUS:
            raise NoTree(status)
        return read_members(body, quotas=self._quotas)[0]

    def _compare_root(self, ask: Ask) -> None:
        known = self.mirror.get(self.mirror.root)
        told = self._folder(ask, self.mirror.root, "0")
        if not known or not told or not known.etag or known.etag != told[0].etag:
            self._walk(ask, propagating=True)

    def _walk(self, ask: Ask, *, propagating: bool = False) -> None:
        """Every folder that may be another. propagating: one whose etag is the same is the same
        with all below it"""
        mirror, asked = self.mirror, 0
        waiting = [mirror.root]
        while waiting:
            folder = waiting.pop()
            asked += 1
            if asked > FOLDERS:
                raise BadDavXml("cannot mirror a tree", why=f"it has over {FOLDERS} folders")
            before = mirror.get(folder)
            mirror.replace_folder(folder, self._folder(ask, folder))
            if before is not None:
                mirror.had[folder] = before.etag if propagating else before.token
            for child in mirror.folders_in(folder):
                if propagating:
                    same = bool(child.etag) and mirror.had.get(child.path) == child.etag
                else:
                    same = self._update(ask, child)
                if not same:
                    waiting.append(child.path)

    def _update(self, ask: Ask, child: DavMember) -> bool:
        """Whether the mirror has now all that is in that folder, which has no folders in it."""
        mirror, had = self.mirror, self.mirror.had.get(child.path)
        if not had or not child.token or mirror.folders_in(child.path):
            return False
        if had == child.token:
            return True
        body = sync_question(self._question, had, "1")
        status, answer = ask(DavQuestion("REPORT", child.path, "0", body))
        if status != MULTISTATUS:
            return False  # the token is too old; or no service of this kind after all
        told, _ = read_members(answer, quotas=self._quotas)
        mirror.apply(member for member in told if member.path != child.path)
        mirror.had[child.path] = child.token
        return not mirror.folders_in(child.path)


def _is_tree(told: list[DavMember], root: str) -> bool:
    """Some services take depth infinity for 1: then nothing is below the folders in the root. A
    tree that looks so is not believed."""
    folders = [m for m in told if m.folder and m.path != root]
    return not folders or any(m.path.count("/") > root.count("/") + 1 for m in told)
