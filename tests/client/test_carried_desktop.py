# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A carried desktop in unmodified viewers, in real guests: the viewer stays connected through a
move, and the clock on the screen goes on."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from testbed.built import built_image
from tests.browser import NOVNC, Browser, browsing
from tests.client.carried import carried_world
from tests.client.world import carried_of
from tests.headless import TIGERVNC, Headless, viewing
from tests.machines import MACHINE
from tests.needs import requires
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "sshd", "ssh"),
]

SERVICE = "desktop-carried"
SIZE = 1024, 768
COLOURS = 8
"""An empty screen has fewer."""
START_SECONDS = 300.0
"""The port listens before the programs of the desktop are there."""


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(viewing, marks=TIGERVNC, id="tigervnc"),
        pytest.param(browsing, marks=NOVNC, id="novnc"),
    ],
)
def test_a_viewer_stays_connected_while_the_desktop_moves(
    tmp_path: Path, shown: Callable[..., AbstractContextManager[Headless | Browser]]
) -> None:
    built_image(SERVICE)
    with carried_world(SERVICE) as world:
        session = world.session()
        with shown(tmp_path / "viewer", session.port, SIZE) as viewer:
            assert eventually(lambda: len(set(viewer.picture())) >= COLOURS, START_SECONDS)
            assert eventually(lambda: viewer.picture() != viewer.picture()), "the clock stands"
            session.move("a")
            before = viewer.picture()
            assert eventually(lambda: viewer.picture() != before), "the clock stands"
            assert viewer.runs
            assert carried_of(session).relay.counts().reset == 0
        assert world.home.home.service(SERVICE).view().state == "down"
