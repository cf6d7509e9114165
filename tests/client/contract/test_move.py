# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Moves keep the state, answer programs meanwhile, and leave nothing at the old place."""

import dataclasses

import pytest

from client import arrival
from client.moves.routes import Route
from satchel.errors import (
    AccessError,
    CapacityError,
    ConflictError,
    NotFoundError,
    SatchelError,
    StateError,
    UnavailableError,
)
from tests.client.contract.sessions import interrupted_at_a_status
from tests.client.contract.world import KEEPING, Service, in_thread
from tests.waiting import eventually

keeping = pytest.mark.parametrize("contract", KEEPING, indirect=True)


@keeping
def test_what_was_done_is_where_the_service_goes(service: Service) -> None:
    session = service.session()
    session.do("at home")
    for old, new in (("home", "a"), ("a", "b")):
        session.move(new)
        assert session.leader == new
        assert eventually(lambda new=new, old=old: new in service.knows(f"at {old}"))  # type: ignore[misc]
        session.do(f"at {new}")
    assert service.at("a") == []
    session.close()
    assert eventually(lambda: service.knows("at b") == {"home"})
    assert eventually(lambda: service.knows("at a") == {"home"})


def test_a_move_home_leaves_nothing_at_a_surrogate(service: Service) -> None:
    session = service.session()
    session.move("a")
    session.do("at a")
    session.move("home")
    assert session.leader == "home"
    assert service.at("a") == []
    assert service.knows("at a") == {"home"}


def test_programs_are_answered_while_a_new_replica_comes_up(service: Service) -> None:
    session = service.session()
    session.move("a")
    with service.held("b") as go:
        moving, raised = in_thread(lambda: session.move("b"))
        assert eventually(lambda: service.at("b"))
        session.do("meanwhile")
        assert session.leader == "a"
        go.set()
        moving.join()
    assert raised == []
    assert session.leader == "b"
    if not service.stateless:
        assert eventually(lambda: "b" in service.knows("meanwhile"))


def test_the_old_one_continues_if_the_new_one_does_not_come_up(service: Service) -> None:
    session = service.session()
    session.move("a")
    session.do("before")
    service.spots["b"].driver.lacking = ("machine type pc-q35-99.0",)
    with pytest.raises(SatchelError, match="pc-q35-99"):
        session.move("b")
    assert session.leader == "a"
    assert service.at("b") == []
    session.do("after")
    assert service.knows("after")
    service.spots["b"].driver.lacking = ()
    session.move("b")
    assert session.leader == "b"
    if not service.stateless:
        assert eventually(lambda: "b" in service.knows("before") & service.knows("after"))


def test_a_refusal_leaves_nothing_here_or_there_and_can_be_tried_again(service: Service) -> None:
    spot, session = service.spots["a"], service.session()
    spot.host.settings = dataclasses.replace(spot.host.settings, memory_mib=8)
    for _ in range(2):
        with pytest.raises(CapacityError, match="has no memory for a machine of 64 MiB"):
            session.move("a")
        assert service.at("a") == []
        assert eventually(lambda: spot.forwarded() == [])
        assert session.leader == "home"
    service.world.tidy()
    session.move("a")
    assert session.leader == "a"


def test_a_surrogate_that_is_unknown_or_away_is_told(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A session that home answers continues with home, and goes there as soon as it can."""
    monkeypatch.setattr(arrival, "AGAIN_SECONDS", 0.2)
    session = service.session()
    for begin in (session.move, lambda name: session.arrival(name).begin()):
        with pytest.raises(NotFoundError, match="no surrogate c: known: a, b"):
            begin("c")
    service.world.cut("b")
    with pytest.raises(UnavailableError, match="cannot connect to b"):
        session.move("b")
    there = session.arrival("b")
    there.begin()
    assert session.leader == "home"
    assert f"{service.name} continues with home, and b is tried again every" in caplog.text
    session.do("at home")
    service.world.mend("b")
    assert eventually(lambda: session.leader == "b")
    there.close()
    if not service.stateless:
        assert eventually(lambda: "b" in service.knows("at home"))


def test_a_second_replica_at_one_place_is_refused(service: Service) -> None:
    session = service.session()
    session.move("a")
    (first,) = service.at("a")
    match = f"{service.name} (has a replica at a already: it is joined|is at a already)"
    with pytest.raises((ConflictError, StateError), match=match):
        session.move("a")
    assert service.at("a") == [first]
    assert session.leader == "a"


def test_only_a_service_that_home_checks_goes_where_nobody_is_trusted(service: Service) -> None:
    session = service.session(trusted=("b",))
    if service.contract == "carried":
        with pytest.raises(AccessError, match="trusted = true"):
            session.move("a")
        assert session.leader == "home"
    else:
        session.move("a")
        assert session.leader == "a"
    session.move("b")


def test_an_interrupt_in_the_middle_of_a_move_leaves_nothing(service: Service) -> None:
    session = service.session()
    with interrupted_at_a_status(), pytest.raises(KeyboardInterrupt):
        session.move("a")
    assert service.at("a") == []
    assert eventually(lambda: service.spots["a"].forwarded() == [])
    session.do("after")
    assert service.knows("after") == {"home"}


def test_close_ends_a_replica_that_is_being_brought_up(service: Service) -> None:
    session = service.session()
    with service.held("a"):
        moving, raised = in_thread(lambda: session.move("a"))
        assert eventually(lambda: service.at("a"))
        closing, _ = in_thread(session.close)
        try:
            assert eventually(lambda: not closing.is_alive(), 15.0)
        finally:
            service.world.tidy()
    moving.join()
    closing.join()
    assert isinstance(raised[0], StateError)
    assert service.at("a") == []


def test_a_plan_says_which_routes_there_are(service: Service) -> None:
    session = service.session()
    session.move("a")
    plan = session.plan("b")
    assert plan.routes
    assert all(route.seconds > 0 for route in plan.routes)
    with pytest.raises(NotFoundError):
        session.plan("nowhere")


@keeping
def test_a_move_may_be_told_the_route_and_not_to_use_the_medium(service: Service) -> None:
    service.carry()
    session = service.session(media=True)
    brought = session.move("a", use_media=False)
    assert "media" not in brought.fetched_bytes
    assert session.move("b", route=Route.HANDOVER).route is Route.HANDOVER


def test_a_trace_has_what_all_did_who_took_part(service: Service) -> None:
    session = service.session()
    session.move("a")
    session.move("b", traced=True)
    assert session.hosts_of_trace() >= {"client", "b"}


def test_a_session_may_have_two_surrogates_at_once(service: Service) -> None:
    session = service.session()
    session.move(["a", "b"])
    assert len(service.at("a")) == len(service.at("b")) == 1
    session.do("at both")
    service.vanish("a")
    assert eventually(lambda: session.leader == "b")
