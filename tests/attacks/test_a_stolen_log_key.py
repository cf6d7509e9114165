# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A thief has the keys of logs from a stolen laptop, and gets at a stick in clear for a while. The
owner has typed `unpair` or `media rotate` before."""

from collections.abc import Callable
from pathlib import Path

import pytest

from client import ServiceSession
from homeserver import Service
from homeserver.media.unsealed import UnsealedPolicy
from media import Media
from replay import KeyRing, Log, OperationsDoubtful
from satchel.ids import OperationNumber
from tests.attacks.test_a_lost_stick import key_pair
from tests.client.world import World, post
from tests.homeserver.conftest import Bench
from tests.homeserver.test_carry import log_on, run
from tests.media_keys import sealed_for
from tests.scripted import operation
from tests.waiting import eventually


def unpair(bench: Bench) -> None:
    bench.home.end_clients()


def rotate(bench: Bench) -> None:
    """Rotate the key of another stick, which is sealed."""
    folder = bench.home.settings.data.parent / "other"
    folder.mkdir()
    key = key_pair(folder, "k").with_suffix(".pub").read_text()
    root = folder / "stick"
    root.mkdir()
    keys = bench.home.settings.media_keys
    Media.init(root, sealed_for(bench.settings, key), keys).close()
    bench.home.rotate(root, [key])


ENDINGS = pytest.mark.parametrize("ends", [unpair, rotate])


def stolen(service: Service) -> KeyRing:
    """The keys that every client has."""
    return KeyRing.from_bytes(service.log_keys.for_client().encode())


def forge(stick: Path, keys: KeyRing, number: int = 0) -> None:
    """With right seals of the stolen key: one operation more; or another one in the place of one,
    and the same ones after it."""
    path = stick / "satchel" / "log" / "notes"
    with Log.open(path, keys=keys) as log:
        found = list(log.read(OperationNumber(log.first - 1)))
        last = log.last
        if number:
            log.cut(last)
            log.start_from(OperationNumber(found[0].number - 1))
            found[number - found[0].number] = operation(number, "/api/delete-everything")
            for one in found:
                log.append(one)
        else:
            log.append(operation(last + 1, "/api/delete-everything"))


@ENDINGS
def test_forges_nothing_that_home_executes(
    bench: Bench, media: Path, ends: Callable[[Bench], None]
) -> None:
    service = bench.running()
    keys = stolen(service)
    log_on(service, media, [operation(n) for n in range(1, 4)])
    bench.home.sync([], media)
    ends(bench)
    forge(media, keys)
    for act in (bench.home.carry, lambda _, root: bench.home.sync([], root)):
        with pytest.raises(OperationsDoubtful, match=r"1 operations .* from 4 on"):
            act("notes", media)
    assert service.last_logged == 3


@ENDINGS
def test_honest_operations_from_before_are_refused_and_not_lost(
    bench: Bench, media: Path, ends: Callable[[Bench], None]
) -> None:
    """They are sealed as the thief's are. The owner knows whose they are."""
    service = bench.running()
    log_on(service, media, [operation(n) for n in range(1, 4)])
    ends(bench)
    with pytest.raises(
        OperationsDoubtful, match=r"key was changed; `--doubtful accept` if you wrote"
    ):
        bench.home.sync([], media)
    assert bench.home.sync([], media, doubtful=UnsealedPolicy.ACCEPT).reconciled == 3
    assert list(service.replayed.operations(OperationNumber(0), 9)) == [
        operation(n) for n in range(1, 4)
    ]


def test_the_rotated_stick_brings_its_own_home_first(bench: Bench, media: Path) -> None:
    service = bench.running()
    log_on(service, media, [operation(n) for n in range(1, 4)])
    bench.home.sync([], media)
    unpair(bench)
    bench.home.sync([], media)  # home has them all: nothing is doubtful
    run(service, 4, 5)
    assert bench.home.carry("notes", media).operation == 5


def test_another_operation_in_the_middle_is_replaced_by_homes(bench: Bench, media: Path) -> None:
    """Both logs end with the same operation."""
    service = bench.running()
    keys = stolen(service)
    log_on(service, media, [operation(n) for n in range(1, 4)])
    bench.home.sync([], media)
    unpair(bench)
    forge(media, keys, 2)
    bench.home.sync([], media)
    with Log.open(media / "satchel/log/notes", keys=service.log_keys.ring, read_only=True) as log:
        assert not log.doubtful
        assert list(log.read(OperationNumber(0))) == [operation(n) for n in range(1, 4)]


def test_a_key_that_is_only_old_counts_for_a_while(bench: Bench, media: Path) -> None:
    service = bench.running()
    log_on(service, media, [operation(n) for n in range(1, 4)])
    service.log_keys.change(days=30)
    assert bench.home.sync([], media).reconciled == 3


def used(carried: World, times: int = 1) -> None:
    """A session with home, and its end."""
    runner = carried.runner()
    url = carried.proxy(runner)
    for _ in range(times):
        assert post(url).status_code == 200
    runner.close()


def test_forges_nothing_that_a_surrogate_executes(carried: World) -> None:
    """The client has met home after the theft, and is at a surrogate without home now."""
    service = carried.home.home.service("notes")
    used(carried, 2)
    assert eventually(lambda: service.last_logged == 2)
    keys = stolen(service)
    carried.home.home.end_clients()
    used(carried)  # it gets the new key, which vouches for the stick's log
    carried.home.cut()
    runner = carried.runner()
    runner.move("a")
    assert post(carried.proxy(runner)).status_code == 200
    runner.close()
    with Log.open(carried.stick / "satchel/log/notes", read_only=True) as log:
        last = log.last
    assert last == 4
    forge(carried.stick, keys)
    refused = ServiceSession(carried.settings, "notes", media=carried.stick)
    with pytest.raises(OperationsDoubtful, match="from 5 on"):
        refused.start()
    refused.close()
    forge(carried.stick, keys, 2)
    refused = ServiceSession(carried.settings, "notes", media=carried.stick)
    with pytest.raises(OperationsDoubtful, match="from 1 on"):
        refused.start()
    refused.close()
    carried.home.mend()
    for _ in range(2):  # the first attempt has vouched for nothing
        refused = ServiceSession(carried.settings, "notes", media=carried.stick)
        with pytest.raises(OperationsDoubtful):
            refused.start()
        refused.close()
