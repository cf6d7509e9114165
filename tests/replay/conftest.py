# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay import AgentChannel
from tests.replay.agents import RunningAgent, running_agent


@pytest.fixture
def agent(short_path: Path) -> Iterator[RunningAgent]:
    """An agent with the test service."""
    with running_agent(short_path) as running:
        yield running


@pytest.fixture
def channel(agent: RunningAgent) -> Iterator[AgentChannel]:
    """A channel to an agent whose service is ready."""
    with agent.connect() as connected:
        connected.wait_ready(20.0)
        yield connected
