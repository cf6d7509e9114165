# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One client at a time, and the keys that it gets."""

from pathlib import Path

import pytest

from homeserver.services.lease import ServiceHeld, ServiceLease
from homeserver.services.log_keys import ServiceLogKeys
from replay import KeyRing
from satchel.names import BadName


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> ServiceLease:
    return ServiceLease("notes", 60.0, clock)


def test_nobody_at_first(lease: ServiceLease) -> None:
    assert lease.holder is None
    assert lease.current() is None


def test_a_second_client_is_told_who_holds_it(lease: ServiceLease, clock: Clock) -> None:
    lease.claim("laptop")
    clock.now += 12
    with pytest.raises(ServiceHeld, match=r"held by client laptop: it was heard from 12 s ago"):
        lease.claim("phone")
    assert lease.current() == ("laptop", 48.0)


def test_the_holder_holds_on_as_long_as_it_is_heard(lease: ServiceLease, clock: Clock) -> None:
    for _ in range(5):
        lease.claim("laptop")
        clock.now += 59
    assert lease.holder == "laptop"


def test_silence_ends_it(lease: ServiceLease, clock: Clock) -> None:
    lease.claim("laptop")
    clock.now += 60
    assert lease.holder is None
    lease.claim("phone")
    assert lease.holder == "phone"


def test_take_over(lease: ServiceLease) -> None:
    lease.claim("laptop")
    lease.claim("phone", take_over=True)
    with pytest.raises(ServiceHeld, match="held by client phone"):
        lease.claim("laptop")


def test_release_is_the_holders_alone(lease: ServiceLease) -> None:
    lease.claim("laptop")
    lease.release("phone")
    assert lease.holder == "laptop"
    lease.release("laptop")
    assert lease.holder is None
    lease.claim("phone")


@pytest.mark.parametrize("name", ["", "A Laptop", "x" * 64, "-x", "x\ny"])
def test_a_name_that_could_not_be_reported(lease: ServiceLease, name: str) -> None:
    with pytest.raises(BadName):
        lease.claim(name)
    assert lease.holder is None


def test_a_key_of_a_log_changes_with_time(tmp_path: Path) -> None:
    """A file of version 1 does not say how old its key is."""
    path = tmp_path / "log.key"
    path.write_bytes(bytes(32))
    assert KeyRing.from_bytes(ServiceLogKeys(path, 0).for_client().encode()).current.epoch == 1
    keys = ServiceLogKeys(path, 30)
    ring = KeyRing.from_bytes(keys.for_client().encode())
    assert (ring.current.epoch, ring.trusts(1), ring.trusts(2)) == (2, True, True)
    assert keys.for_client() == ServiceLogKeys(path, 30).for_client()
    assert keys.change()
    assert keys.ring
    assert [keys.ring.trusts(epoch) for epoch in (1, 2, 3)] == [False, False, True]
    assert ServiceLogKeys(None, 30).for_client() == ""
