# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What all tests share.

- `requires(...)`: what a test needs of the machine, a mark (tests/needs.py)
- `libvirtd`: a real libvirt of the run's own (tests/hypervisor/libvirtd.py)
- `notes_checkpoint`: a real machine, booted once in a run (tests/machines.py)
- `short_path`: a folder with a path short enough for sockets in it
- long tests are marked `nightly` and run with --nightly only
- an unexpected skip fails in CI and with --nightly (tests/skips.py)
- what the run leaves behind fails it (tests/leftovers.py)
- where its time went is in build/durations.txt (tests/durations.py)
- Hypothesis does not mind that the machine is slow
- a test that hangs where no signal reaches it is ended (tests/watchdog.py)
- a run in the background, with SIGINT or SIGHUP ignored, starts programs that can be interrupted
"""

import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.durations import Durations, calibrate, read_budget
from tests.hypervisor.libvirtd import libvirtd
from tests.leftovers import SHORT_PREFIX, _nothing_left_over
from tests.machines import notes_checkpoint
from tests.needs import requires
from tests.skips import refuse_unexpected
from tests.watchdog import _watchdog, _watched

__all__ = [
    "_nothing_left_over",
    "_watchdog",
    "_watched",
    "libvirtd",
    "notes_checkpoint",
    "requires",
    "short_path",
]

settings.register_profile("slow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("slow")


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder of the test's own whose path is short: a Unix socket's may have 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix=SHORT_PREFIX))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


for _number in (signal.SIGINT, signal.SIGHUP):
    # Children inherit an ignored signal, but not a handler. Pytest itself survives SIGHUP.
    if signal.getsignal(_number) is signal.SIG_IGN:
        _interrupts = _number == signal.SIGINT
        signal.signal(_number, signal.default_int_handler if _interrupts else lambda *_: None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="run the long tests too")
    parser.addoption("--budget", action="store_true", help="fail if the run is over its budget")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files with real machines come first: of two at a time a long one is not the last."""
    first = {item.path for item in items if item.get_closest_marker("machine")}
    items.sort(key=lambda item: item.path not in first)
    if config.getoption("--nightly"):
        return
    nightly = [item for item in items if item.get_closest_marker("nightly")]
    if nightly:
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if item not in nightly]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_unexpected(report, item.config)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_unexpected(report, collector.config)
    return report


_durations = Durations()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _durations.add(report.nodeid, report.duration)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Print and judge where the time went, in the process that starts the workers."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None or not session.config.getoption("--budget"):
        return  # a worker has no terminal
    _durations.write(session.config.rootpath / "build" / "durations.txt")
    lines, within = _durations.report(read_budget(), calibrate())
    terminal.write_sep("=", "durations")
    for line in lines:
        terminal.write_line(line)
    if not within and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
