# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian's Jupyter, carried: a kernel counts on through moves, and its one WebSocket stays."""

from pathlib import Path

import pytest

from tests.client.carried import carried_world
from tests.client.world import carried_of
from tests.machines import MACHINE
from tests.needs import requires
from tests.services.examples import example
from tests.services.printing import printing

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "websocket", "sshd", "ssh"),
]

CLIENT = Path(__file__).with_name("kernel_client.py")


def test_a_kernel_counts_on_through_moves(tmp_path: Path) -> None:
    example("jupyter", tmp_path)
    with carried_world("jupyter") as world:
        session = world.session()
        with printing(["/usr/bin/python3", str(CLIENT), str(session.port)]) as client:
            assert client.prints_more()
            for place in ("a", "b"):
                print(session.move(place))
                assert client.prints_more()
            *numbers, kept = client.end()
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
        # It may have been interrupted between a count and its print.
        assert kept in (f"kept {len(numbers)}", f"kept {len(numbers) + 1}")
        assert carried_of(session).relay.counts().reset == 0
