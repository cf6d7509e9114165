# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.contract.lacks import LACKS
from tests.client.contract.world import CONTRACTS, ContractWorld, Service
from tests.leftovers import SHORT_PREFIX
from tests.needs import requires

_NEEDS = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent != Path(__file__).parent:
            continue
        item.add_marker(_NEEDS)
        if why := LACKS.get(item.path.stem, {}).get(item.name.removeprefix("test_")):
            item.add_marker(pytest.mark.xfail(reason=why, strict=True))


@pytest.fixture(scope="module")
def everything() -> Iterator[ContractWorld]:
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    with contextlib.closing(ContractWorld(folder)) as made:
        yield made
    shutil.rmtree(folder)


@pytest.fixture(params=CONTRACTS)
def contract(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def service(everything: ContractWorld, contract: str) -> Iterator[Service]:
    """A service of that contract, which home leads alone."""
    made = Service(everything, contract)
    yield made
    made.end()
