# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.uplink.gateway.site import Site, site


@pytest.fixture
def cloud(short_path: Path) -> Iterator[Site]:
    """WsgiDAV, and uplink before it, which lets nothing go before it is told to."""
    short_path.chmod(0o755)
    with site(short_path) as made:
        made.hold()
        yield made
