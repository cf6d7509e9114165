# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How a session begins: with home or a medium, with which key, from which state."""

import shutil
from pathlib import Path

import pytest

from chunkstore import MediaNotFound
from client.session.checkpoints import CheckpointDamaged, CheckpointRefused, OwnerOverrides
from client.state.last_seen import StateOlder
from media import Media
from satchel.errors import (
    AccessError,
    ConflictError,
    NotFoundError,
    UnavailableError,
    UsageError,
)
from tests.client.contract.world import KEEPING, Service
from tests.waiting import eventually
from wire import Identity

keeping = pytest.mark.parametrize("contract", KEEPING, indirect=True)


def test_home_leads_from_the_first_moment(service: Service) -> None:
    session = service.session()
    assert session.leader == "home"
    session.do("first")
    assert service.knows("first") == {"home"}


@keeping
def test_a_session_continues_where_the_last_one_ended(service: Service) -> None:
    for word in ("one", "two"):
        session = service.session()
        session.do(word)
        session.close()
    service.session()
    assert service.knows("one") == service.knows("two") == {"home"}


def test_a_session_starts_a_service_that_home_has_stopped_or_never_launched(
    service: Service,
) -> None:
    home, service.name = service.home.home, f"fresh-{service.name}"
    home.add_service(service.name, service.name.removeprefix("fresh-"))
    for word in ("fresh", "stopped"):
        session = service.session()
        session.do(word)
        assert service.knows(word) == {"home"}
        session.close()
        home.stop(service.name)


def test_media_that_is_not_there_is_told_and_nothing_is_made_in_its_place(
    service: Service, tmp_path: Path
) -> None:
    for media in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(MediaNotFound):
            service.session(media=media)
    assert list(tmp_path.iterdir()) == []


def test_a_service_that_nobody_has_is_not_found(service: Service) -> None:
    with pytest.raises(NotFoundError, match="diary"):
        service.session(service="diary")
    with pytest.raises(NotFoundError, match="diary"):
        service.session(service="diary", media=True)


def test_a_name_that_is_none_is_refused(service: Service) -> None:
    for name in ("../../etc", "", "Notes", "a/b"):
        with pytest.raises(UsageError, match="cannot name a service"):
            service.session(service=name)


def test_without_home_and_media_there_is_no_session(service: Service) -> None:
    service.world.cut("home")
    with pytest.raises(UnavailableError, match="cannot connect to home"):
        service.session()


def test_a_wrong_key_is_refused_in_clear_text(service: Service, tmp_path: Path) -> None:
    home = service.settings.home
    wrong = Identity.create(tmp_path / "wrong")
    with pytest.raises(AccessError, match="does not accept the key"):
        service.session(home=type(home)(**{**vars(home), "identity": wrong.path}))


def test_a_session_starts_without_home_and_home_joins_when_it_can(service: Service) -> None:
    service.carry()
    session = service.session(media=True)
    session.do("before")
    session.close()
    service.world.cut("home")
    session = service.session(media=True)
    session.move("a")
    assert session.leader == "a"
    if not service.stateless:
        assert "a" in service.knows("before")
    session.do("without home")
    assert "a" in service.knows("without home")
    service.world.mend("home")
    assert session.sent()
    session.close()
    if not service.stateless:
        assert service.knows("without home") == {"home"}


def test_a_checkpoint_that_a_stranger_signed_is_refused(service: Service, tmp_path: Path) -> None:
    key = Identity.create(tmp_path / "stranger")
    signers = tmp_path / "signers"
    signers.write_text(f'owner namespaces="satchel-checkpoint" {key.public}\n')
    with pytest.raises(CheckpointRefused, match=f"the checkpoint of {service.name} from"):
        service.session(allowed_signers=signers)


def test_a_checkpoint_under_another_service_s_name_is_refused(service: Service) -> None:
    service.carry()
    service.world.plain.mislabel(service.name, "diary")
    service.world.cut("home")
    with pytest.raises(CheckpointDamaged, match=f"it is of service {service.name}"):
        service.session(service="diary", media=True)


def test_a_damaged_checkpoint_on_media_gives_way_to_home_s(service: Service) -> None:
    service.carry()
    session = service.session()
    session.do("whole")
    session.close()
    for path in (service.stick / "satchel" / "checkpoints").glob(f"{service.name}-*.json"):
        path.write_bytes(path.read_bytes().replace(b'"operation":', b'"operation":1'))
    session = service.session(media=True)
    session.move("a")
    session.close()
    service.world.cut("home")
    with pytest.raises(CheckpointDamaged, match="is of no use"):
        service.session(media=True)


@keeping
def test_an_older_medium_is_refused_unless_it_is_accepted(service: Service, tmp_path: Path) -> None:
    older = tmp_path / "older"
    service.carry()
    shutil.copytree(service.stick, older)
    session = service.session(media=True)
    session.do("only at home")
    session.close()
    service.world.cut("home")
    with pytest.raises(StateOlder, match=f"older state of {service.name}") as refused:
        service.session(media=older)
    assert "--accept-older" in refused.value.fix
    with Media.open(older) as media:
        newest = media.checkpoints(service.name)[0].id
    session = service.session(media=older, accepted=OwnerOverrides(older=newest))
    session.move("b")
    assert "b" not in service.knows("only at home")


def test_one_client_at_a_time_unless_it_takes_over(service: Service) -> None:
    """Home knows clients of one host name by their keys."""
    session, other = service.session(), service.other_client()
    with pytest.raises(ConflictError, match=f"{service.name} is held by client") as raised:
        service.session(**other)
    assert raised.value.exit_code == 5
    assert "--take-over" in raised.value.fix
    session.do("mine")
    later = service.session(take_over=True, **other)
    later.do("theirs")
    assert "home" in service.knows("theirs")


def test_what_a_killed_session_left_is_used_or_ended_by_the_next_one(service: Service) -> None:
    killed = service.session()
    killed.move("a")
    killed.do("by the killed one")
    (left,) = service.at("a")
    service.kill(killed)
    assert service.at("a") == [left]
    session = service.session()
    if session.leader != "a":
        session.move("a")
    assert len(service.at("a")) == 1
    if not service.stateless:
        assert eventually(lambda: "a" in service.knows("by the killed one"))
    session.close()
    if not service.stateless:
        assert service.knows("by the killed one") == {"home"}
    assert not (service.settings.run / f"{service.name}.replicas").exists()


def test_who_was_taken_over_is_told_and_changes_nothing_any_more(service: Service) -> None:
    """The last one here: its client has operations that home has not."""
    session = service.session()
    session.do("mine")
    later = service.session(take_over=True, **service.other_client())
    later.do("theirs")
    with pytest.raises(AssertionError, match=r"409: .*held by client"):
        session.do("late")
    assert "held by client" in session.status()["refusal"]
    assert service.knows("late") == set()
