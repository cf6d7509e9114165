# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Losses, and ends: surrogates and home die, hang, are away and come back."""

import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from replica import ReplicaState
from tests.client.contract.world import KEEPING, Service, in_thread
from tests.waiting import PATIENCE_SECONDS, eventually

keeping = pytest.mark.parametrize("contract", KEEPING, indirect=True)


def test_a_machine_that_ends_is_lost_and_can_be_replaced_there(service: Service) -> None:
    session = service.session()
    session.move("a")
    session.do("before")
    assert session.sent()
    service.crash("a")
    session.do("after")
    assert eventually(lambda: session.leader == "home")
    assert eventually(session.lost)
    (why,) = session.lost().values()
    carried = service.contract == "carried"
    assert ("its machine cannot continue" if carried else "pulled the plug") in why
    if not service.stateless:
        assert eventually(lambda: "home" in service.knows("before"))
    session.move("a")
    assert session.leader == "a"
    assert len(service.at("a")) == 1
    if not service.stateless:
        assert eventually(lambda: "a" in service.knows("after"))


def test_a_surrogate_that_nobody_reaches_any_more_is_lost_in_seconds(service: Service) -> None:
    session = service.session()
    session.move("a")
    session.do("before")
    assert session.sent()
    service.vanish("a")
    began = time.monotonic()
    for _ in range(3):
        session.do("after")
    assert eventually(lambda: session.leader == "home")
    assert time.monotonic() - began < 30
    session.move("b")
    assert session.leader == "b"
    if not service.stateless:
        assert eventually(lambda: "b" in service.knows("before") & service.knows("after"))


def test_a_loss_is_seen_while_the_old_one_is_still_ending(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = service.session()
    session.move("a")
    host, ended = service.spots["a"].host, threading.Event()
    end = host.remove

    def end_late(*which: Any) -> None:
        ended.wait(10 * PATIENCE_SECONDS)
        end(*which)

    monkeypatch.setattr(host, "remove", end_late)
    moving, raised = in_thread(lambda: session.move("b"))
    try:
        assert eventually(lambda: session.leader == "b")
        service.crash("b")
        session.do("meanwhile")
        assert eventually(lambda: session.leader == "home")
        assert moving.is_alive()
    finally:
        ended.set()
        moving.join()
    assert raised == []
    assert service.at("a") == []
    session.move("a")
    assert session.leader == "a"


def test_a_replica_that_its_host_is_told_to_end_is_lost(service: Service) -> None:
    session = service.session()
    session.move("a")
    session.do("before")
    (hosted,) = service.spots["a"].host.replicas()
    service.spots["a"].host.end_every(hosted.id)
    assert hosted.replica.state is ReplicaState.STOPPED
    session.do("after")
    assert eventually(lambda: session.leader == "home")
    assert eventually(lambda: [*session.lost()] == ["a"])


def test_home_goes_and_comes_back_in_the_middle(service: Service) -> None:
    session = service.session()
    session.move("a")
    service.world.cut("home")
    session.do("without home")
    assert session.leader == "a"
    service.world.mend("home")
    assert session.sent()
    session.close()
    if not service.stateless:
        assert service.knows("without home") == {"home"}


@keeping
def test_without_home_a_lost_surrogate_is_replaced_from_the_medium(service: Service) -> None:
    service.carry()
    session = service.session(media=True)
    session.move("a")
    session.do("signed")
    assert session.sent()
    assert session.on_medium()
    service.world.cut("home")
    service.vanish("a")
    session.move("b")
    assert eventually(lambda: "b" in service.knows("signed"))
    session.do("after")
    service.world.mend("home")
    assert session.sent()
    session.close()
    assert service.knows("signed") == service.knows("after") == {"home"}


@keeping
def test_a_session_that_ends_without_home_keeps_what_home_lacks(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.carry()
    session = service.session(media=True)
    session.move("a")
    session.do("at home")
    assert session.sent()
    service.world.cut("home")
    session.do("not at home")
    caplog.set_level(logging.WARNING)
    session.settle()
    assert "home" in caplog.text
    session.close()
    service.world.mend("home")
    again = service.session(media=True)
    assert again.sent()
    again.close()
    assert eventually(lambda: service.knows("not at home") == {"home"})


def test_a_home_that_hangs_holds_no_end_up(service: Service) -> None:
    session = service.session()
    session.do("before")
    assert session.sent()
    service.world.hang("home")
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 30
    service.world.mend("home")
    service.session()


def test_a_surrogate_that_hangs_holds_no_end_up(service: Service) -> None:
    session = service.session()
    session.move("a")
    service.world.hang("a")
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 30
    service.world.mend("a")
    if service.contract == "carried":
        service.left_at("a")  # the next session would lead there
        return
    service.session().move("a")
    assert len(service.at("a")) == 1


def test_sessions_leave_no_thread_and_no_descriptor(service: Service) -> None:
    def once() -> None:
        session = service.session()
        session.move("a")
        session.do("x")
        session.close()

    once()
    time.sleep(0.5)
    before = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for _ in range(2):
        once()
    assert eventually(lambda: threading.active_count() <= before[1] + 1)
    assert eventually(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before[0] + 3)
