# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What one node, or one fault, may cost the others of a share."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from tests.homeserver.shares.conftest import Home
from tests.waiting import eventually


def test_what_goes_wrong_in_one_look_does_not_keep_lost_nodes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that looks at leases ended with what it had not expected of a disk."""
    share = home.add()
    failed = threading.Event()

    def fails() -> None:
        failed.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(share.content, "save", fails)
        assert failed.wait(10)
    home.join("one").cut_off()
    assert eventually(lambda: len(share.taken_over) == 1)
