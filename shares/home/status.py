# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What home can say of a share: who is how far behind, what was sent, how the write log is."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from shares.home.nodes.session import NodeSession
from shares.home.share import Share
from shares.protocol import BLOCK, HOME, NodeId

HOTTEST = 20
"""Files that are named."""


def share_status(share: Share) -> dict[str, Any]:
    """As JSON has it. Bytes, seconds, counts."""
    behind = _all_behind(share)
    nodes = [_home(share, behind.get(HOME, (0, 0.0)))]
    for session in sorted(share.sessions.values(), key=lambda session: session.node):
        nodes.append(_node(session, behind.get(session.node, (0, 0.0))))
    return {
        "share": share.name,
        "path": str(share.tree.path),
        "policy": share.record.policy,
        "relaxation": share.record.relaxation,
        "rules": [asdict(rule) for rule in share.record.rules],
        "log": {"mode": share.record.log, **asdict(share.log.lag())},
        "replayed": {
            "records": share.blocks.restored.records,
            "seconds": share.blocks.replay_seconds,
        },
        "taken_over": [asdict(each) for each in share.lost_since(0.0)],
        "conflicts": [path.decode(errors="replace") for path in share.blocks.copies.told],
        "locks": share.locks.count(),
        "nodes": nodes,
        "traffic": [
            {
                "node": session.node,
                "direction": direction,
                "kind": kind,
                "count": count,
                "bytes": session.traffic_bytes[direction, kind],
            }
            for session in sorted(share.sessions.values(), key=lambda session: session.node)
            for (direction, kind), count in sorted(session.traffic.copy().items())
        ],
        "files": _owned(share),
    }


def _all_behind(share: Share) -> dict[NodeId, tuple[int, float]]:
    """Of each node, how many blocks it had or would have to have again, and since when at most."""
    found: dict[NodeId, tuple[int, float]] = {}
    now = time.monotonic()
    with share.coherence.lock:
        for (file, number), since in list(share.coherence.since.items()):
            record = share.coherence.directory.record(file, number)
            if record is None or record.owner == HOME:
                del share.coherence.since[file, number]
                continue
            age = now - max(since, record.known)
            for node in {HOME, *record.readers} - {record.owner}:
                blocks, seconds = found.get(node, (0, 0.0))
                found[node] = blocks + 1, max(seconds, age)
    return found


def _owned(share: Share) -> list[dict[str, Any]]:
    """The files of which nodes own the most blocks, or which are native somewhere."""
    with share.coherence.lock:
        owned = Counter(file for file, _ in share.coherence.since)
        native = {
            file: share.coherence.directory.native(file)
            for file in share.coherence.directory.files()
        }
    files = {file for file, node in native.items() if node is not None} | set(owned)
    hottest = sorted(files, key=lambda file: -owned[file])[:HOTTEST]
    return [
        {
            "file": int(file),
            "path": (share.tree.place(file) or b"?").decode(errors="replace"),
            "owned_blocks": owned[file],
            "native": native.get(file),
        }
        for file in hottest
    ]


def _home(share: Share, behind: tuple[int, float]) -> dict[str, Any]:
    return {
        "node": int(HOME),
        "name": "home",
        "connected": True,
        "idle_seconds": 0.0,
        "open_files": 0,
        **_behind(behind),
    }


def _node(session: NodeSession, behind: tuple[int, float]) -> dict[str, Any]:
    return {
        "node": int(session.node),
        "name": session.name,
        "connected": session.connected,
        "idle_seconds": time.monotonic() - session.heard,
        "open_files": len(session.opened),
        **_behind(behind),
    }


def _behind(behind: tuple[int, float]) -> dict[str, Any]:
    blocks, seconds = behind
    return {
        "behind_blocks": blocks,
        "behind_bytes": blocks * BLOCK,
        "behind_seconds": seconds,
    }
