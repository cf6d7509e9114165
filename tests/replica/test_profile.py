# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What is learnt of observations, and the bytes of docs/formats/profile.md."""

import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkstore import TableRoot
from replica import (
    AWAY,
    IDLE,
    RESUME,
    STEADY,
    Access,
    Profile,
    ProfileInvalid,
    Run,
    Temperature,
    decode_profile,
    encode_profile,
    first_of,
    observed,
)
from replica.profile import OPENING, PHASE_LIMIT, RUN_LIMIT, SUCCESSORS, WEEK_SECONDS, decayed
from replica.profile_format import SIZE_LIMIT
from satchel.ids import ZERO_REF

NOW = 2900 * WEEK_SECONDS
VOLUMES = {
    "ram": TableRoot(ref=ZERO_REF, size=256 << 20),
    "disk0": TableRoot(ref=ZERO_REF, size=(16 * 3 + 5) << 12),
}
POST, GET = first_of("POST /notes"), first_of("GET /notes")
GOLDEN = bytes.fromhex(
    "53415450 02 02 03 00 540b0000 03000000"
    "05 6469736b30  03 72616d  06 726573756d65"
    "07 6f70656e696e67  06 737465616479"
    "01 02"
    "03 08000000 04 00 00 e04e 01 04 02"
    "00 0a000000 04 00 00 e04e 02 01 02 02 02"
    "8001 20000000 00 04 00 df4e 00"
    "01 02 0300  01 00 0200  01 04 0400"
)


def touches(
    *blocks: int, phase: str = RESUME, at: float = NOW, volume: str = "ram"
) -> list[Access]:
    return [Access(at + n / 1000, phase, volume, block) for n, block in enumerate(blocks)]


def learnt(*observations: list[Access]) -> Profile:
    profile = Profile()
    for n, accesses in enumerate(observations):
        profile = observed(profile, accesses, NOW + 60 * n)
    return profile


def blocks(profile: Profile, least: int = 2, **which: tuple[str, ...]) -> list[int]:
    return [
        n for run in profile.order(least, **which) for n in range(run.first, run.first + run.count)
    ]


def example() -> Profile:
    accesses = [
        *touches(0, 1),
        *touches(49, phase=POST, volume="disk0", at=NOW + 1),
        Access(NOW + 60, STEADY, "ram", 16 * 129 + 2, write=True),
    ]
    return observed(Profile(), accesses, NOW + 60)


def test_golden_bytes() -> None:
    assert encode_profile(example()).hex() == GOLDEN.hex()
    assert encode_profile(decode_profile(GOLDEN, VOLUMES)) == GOLDEN


def test_blocks_come_in_the_order_of_first_touch_phase_after_phase() -> None:
    accesses = [
        *touches(900, 33, 20, 901, 20),
        *touches(5, 33, phase=STEADY),
        *touches(70, phase=POST),
    ]
    profile = learnt(accesses)
    assert blocks(profile) == [900, 901, 33, 20, 70, 5]
    assert blocks(profile, phases=(STEADY,)) == [5]
    assert profile.order()[0] == Run("ram", 900, 2)


def test_neighbours_that_are_touched_later_come_later() -> None:
    machine = [*touches(3, 40), *touches(4, 41, 70, phase=POST), *touches(5, 70, phase=STEADY)]
    profile = learnt(machine)
    assert [[run.first for run in part] for part in profile.parts()] == [[3, 40], [4, 41, 70], [5]]
    assert blocks(profile) == [3, 40, 4, 41, 70, 5]
    assert blocks(profile, phases=(OPENING,)) == [4, 41, 70]


def test_a_block_is_of_the_phase_in_which_the_last_resumed_machine_touched_it() -> None:
    first = [*touches(3, 40), *touches(4, phase=POST)]
    again = [*touches(4, 40), *touches(3, phase=POST)]
    profile = learnt(first, again)
    assert [blocks(profile, phases=(name,)) for name in (RESUME, OPENING)] == [[4, 40], [3]]
    unresumed = [*touches(40, 4, phase=STEADY), *touches(5, phase=IDLE)]
    profile = learnt(first, unresumed)
    known = [blocks(profile, phases=(name,)) for name in (RESUME, OPENING, STEADY, IDLE)]
    assert known == [[3, 40], [4], [], [5]]


def test_the_opening_is_what_any_first_operation_needs() -> None:
    """It needs 4; POST alone needs 70, GET alone 90."""
    post = [*touches(1), *touches(4, 70, phase=POST), *touches(90, phase=GET)]
    get = [*touches(1), *touches(4, 90, phase=GET), *touches(70, phase=POST)]
    phases = (RESUME, OPENING, POST, GET)
    assert [blocks(learnt(post), phases=(n,)) for n in phases] == [[1], [4, 70], [], [90]]
    for lives in ([post, get], [post, get, post], [post, get, get]):
        profile = learnt(*lives)
        assert [blocks(profile, phases=(n,)) for n in phases] == [[1], [4], [70], [90]]
    assert blocks(profile) == [1, 4, 90, 70]


def test_the_opening_forgets_what_no_first_operation_touches_any_more() -> None:
    first = [*touches(1), *touches(4, 70, phase=POST)]
    again = [*touches(1), *touches(4, phase=GET)]
    assert blocks(learnt(first, again), phases=(OPENING,)) == [4]


def test_a_machine_is_expected_to_touch_only_the_blocks_of_its_phases() -> None:
    first = [*touches(3), *touches(4, phase=POST)]
    profile = learnt(first, *[touches(3)] * 3)
    assert blocks(profile, phases=(OPENING,)) == [4]
    assert blocks(learnt(first, *[[*touches(3), *touches(90, phase=POST)]] * 2)) == [3, 90]


def test_what_was_touched_in_no_known_phase_is_of_the_last_that_its_run_is_in() -> None:
    machine = [*touches(3), *touches(4, phase=POST)]
    profile = learnt(machine, [*touches(3), Access(NOW + 9, "", "ram", 7, hit=True)])
    assert blocks(profile, phases=(OPENING,)) == [4, 7]


def test_what_two_of_three_machines_touch_stays() -> None:
    profile = learnt(touches(1, 2, 40), touches(1, 40), touches(2, 40), touches(1, 2, 40))
    assert blocks(profile) == [1, 2, 40]
    assert blocks(learnt(touches(1, 40), touches(40))) == [40]


def test_what_no_machine_touches_any_more_is_forgotten() -> None:
    profile = learnt(touches(1, 40), *[touches(40)] * 2)
    assert blocks(profile, 1) == [40]
    assert ("ram", 0) not in profile.runs
    assert profile.phases[RESUME] == {("ram", 2): 1 << 8}
    assert all(key != ("ram", 0) for c in profile.runs.values() for key, _ in c.successors)


def test_a_machine_that_was_not_resumed_says_nothing_of_what_it_did_not_touch() -> None:
    profile = learnt(touches(1, 40), *[touches(80, phase=STEADY)] * 5)
    assert blocks(profile) == [1, 40, 80]


def test_a_phase_that_a_machine_did_not_go_through_is_not_missed_in_it() -> None:
    profile = learnt([*touches(1), *touches(40, phase=POST)], touches(1), touches(1))
    assert blocks(profile) == [1, 40]


def lives_of_a_disk(*steady: range) -> Profile:
    """Lives that are the same but for what they touch of their disk later on: three blocks of it
    are of the opening."""
    return learnt(
        *(
            [
                *touches(1),
                *touches(2, phase=POST),
                *touches(100, 101, 102, phase=POST, volume="disk0"),
                *touches(3, phase=STEADY),
                *touches(*blocks, phase=STEADY, volume="disk0"),
            ]
            for blocks in steady
        )
    )


def firsts(parts: list[list[Run]], volume: str) -> list[int]:
    return [run.first for part in parts for run in part if run.volume == volume]


def test_of_a_volume_that_lives_use_differently_only_first_operations_are_foreseen() -> None:
    profile = lives_of_a_disk(range(200, 208), range(204, 212))
    assert profile.fickle() == {"disk0"}
    assert firsts(profile.parts(), "disk0") == [100, 204, 208]
    assert firsts(profile.foreseen(), "disk0") == [100]
    assert firsts(profile.foreseen(), "ram") == [1, 2, 3]


def test_idle_comes_after_first_operations_too() -> None:
    lives = (
        [*touches(1), *touches(*blocks, phase=IDLE, volume="disk0")]
        for blocks in (range(40), range(20, 60))
    )
    profile = learnt(*lives)
    assert firsts(profile.parts(), "disk0") == [20, 32, 48]
    assert firsts(profile.foreseen(), "disk0") == []


def test_a_volume_of_which_no_more_than_a_quarter_was_not_touched_again_is_foreseen() -> None:
    """Three blocks of the opening and nine others were, three were not; then four."""
    profile = lives_of_a_disk(range(200, 212), range(203, 212))
    assert profile.fickle() == set()
    assert profile.foreseen() == profile.parts()
    assert lives_of_a_disk(range(200, 213), range(204, 213)).fickle() == {"disk0"}


def test_what_one_life_alone_tells_makes_no_volume_fickle() -> None:
    """The first life, and what the last one touched besides."""
    for lives in ([range(200, 300)], [range(200, 208), range(200, 300)]):
        profile = lives_of_a_disk(*lives)
        assert profile.fickle() == set()
        assert profile.foreseen() == profile.parts()


def test_a_volume_that_lives_use_alike_again_is_foreseen_again() -> None:
    profile = lives_of_a_disk(range(200, 208), range(300, 308), range(300, 308))
    assert profile.fickle() == set()
    assert firsts(profile.foreseen(), "disk0") == [100, 300, 304]


def test_successors_are_those_that_follow_most_times() -> None:
    a, b, c, d, e = 0, 100, 200, 300, 400
    profile = learnt(touches(a, b, c), touches(a, b, d), touches(a, b, e))
    first = profile.runs["ram", 0].successors
    assert first[0] == (("ram", b // 16), 3)
    assert len(first) <= SUCCESSORS
    assert dict(first).get(("ram", c // 16), 0) < dict(first)["ram", e // 16]
    follows = list(profile.follow([("ram", 0)]))
    assert follows[0] == ("ram", b // 16)
    assert ("ram", 0) not in follows
    assert len(follows) == len(set(follows))


def test_an_access_within_five_seconds_does_not_count() -> None:
    profile = learnt(
        [
            Access(NOW, RESUME, "ram", 0),
            Access(NOW + 4.9, RESUME, "ram", 3),
            Access(NOW + 5.0, STEADY, "ram", 3, write=True),
            Access(NOW + 9.0, STEADY, "ram", 3),
            Access(NOW + 10.0, STEADY, "ram", 3, hit=True),
        ]
    )
    context = profile.runs["ram", 0]
    assert (context.reads, context.writes, context.hits) == (1.0, 1.0, 1.0)
    assert context.last == NOW + 10.0


def test_accesses_count_after_the_clock_was_put_back() -> None:
    ahead = observed(Profile(), [Access(NOW + WEEK_SECONDS, "", "ram", 0)], NOW + WEEK_SECONDS)
    context = observed(ahead, [Access(NOW, "", "ram", 0)], NOW).runs["ram", 0]
    assert (context.reads, context.last) == (2.0, NOW)


def test_counts_are_halved_each_week() -> None:
    profile = learnt(touches(0))
    assert decayed(profile, NOW + WEEK_SECONDS - 1) == profile
    later = decayed(profile, NOW + 2 * WEEK_SECONDS)
    assert later.runs["ram", 0].reads == 0.25
    assert decayed(later, NOW + 2 * WEEK_SECONDS) == later
    assert decayed(later, NOW).runs == later.runs


def test_a_clock_that_was_far_ahead_once_takes_no_counts() -> None:
    profile = learnt(touches(0))
    ahead = decayed(profile, NOW + 4000 * WEEK_SECONDS)
    assert ahead.runs["ram", 0].reads >= profile.runs["ram", 0].reads / 16
    again = decayed(ahead, NOW)
    assert again == replace(ahead, week=profile.week)
    assert decayed(again, NOW + WEEK_SECONDS).runs["ram", 0].reads == ahead.runs["ram", 0].reads / 2


def test_hot_warm_and_cold_are_thirds() -> None:
    accesses = [
        Access(NOW + 10 * again, STEADY, "ram", 16 * run)
        for run in range(9)
        for again in range(9 - run)
    ]
    found = learnt(sorted(accesses, key=lambda access: access.at)).temperatures()
    kinds = [found["ram", run] for run in range(9)]
    assert kinds == [*[Temperature.HOT] * 3, *[Temperature.WARM] * 3, *[Temperature.COLD] * 3]


def test_a_touch_across_runs_and_up_to_a_volumes_end() -> None:
    profile = learnt([Access(NOW, RESUME, "disk0", 14, 20), Access(NOW, RESUME, "disk0", 52)])
    assert blocks(profile) == [*range(14, 34), 52]
    assert decode_profile(encode_profile(profile), VOLUMES).order() == profile.order()


def test_an_observation_that_saw_nothing_changes_nothing() -> None:
    assert observed(example(), [], NOW) == example()


def test_what_has_no_phase_counts_and_has_no_place() -> None:
    profile = learnt(touches(0), [Access(NOW + 9, "", "ram", 32, write=True)])
    assert profile.runs["ram", 2].writes == 1
    assert blocks(profile) == [0]


def test_it_never_grows_beyond_its_size() -> None:
    choose = random.Random(7)
    volumes = {"ram": TableRoot(ref=ZERO_REF, size=1 << 34)}
    profile = Profile()
    kinds = [RESUME, IDLE, STEADY, *(first_of(f"GET /{n}" + "é" * 200) for n in range(30))]
    for n in range(3):
        at, accesses = NOW + n * 1000, []
        for _ in range(12000):
            block = choose.randrange(1 << 22)
            accesses.append(Access(at, choose.choice(kinds), "ram", block, choose.randrange(1, 40)))
        profile = observed(profile, accesses, at)
    assert len(profile.runs) == RUN_LIMIT
    assert {RESUME, STEADY, IDLE} <= set(profile.phases)
    assert len(profile.phases) <= PHASE_LIMIT
    data = encode_profile(profile)
    assert len(data) <= SIZE_LIMIT
    again = decode_profile(data, volumes)
    assert encode_profile(again) == data
    assert len(again.runs) > RUN_LIMIT // 2


@pytest.mark.parametrize("size", range(len(GOLDEN)))
def test_cut_short(size: int) -> None:
    with pytest.raises(ProfileInvalid):
        decode_profile(GOLDEN[:size], VOLUMES)


@pytest.mark.parametrize(
    "damaged",
    [
        b"SATQ" + GOLDEN[4:],
        GOLDEN[:4] + b"\x01" + GOLDEN[5:],
        GOLDEN[:5] + b"\x41" + GOLDEN[6:],
        GOLDEN[:6] + b"\x11" + GOLDEN[7:],
        GOLDEN[:7] + b"\x01" + GOLDEN[8:],
        GOLDEN[:12] + struct.pack("<I", RUN_LIMIT + 1) + GOLDEN[16:],
        GOLDEN[:12] + struct.pack("<I", 2) + GOLDEN[16:],
        GOLDEN.replace(b"disk0", b"disk1"),
        GOLDEN.replace(b"resume", b"steady"),
        GOLDEN.replace(b"ram", b"r\xc3m"),
        GOLDEN.replace(b"\x80\x01\x20", b"\xff\xff\x03\x20"),
        GOLDEN.replace(b"\x80\x01\x20", b"\xff" * 10 + b"\x20"),
        GOLDEN.replace(b"\x01\x04\x02\x00", b"\x01\x04\x04\x00"),
        GOLDEN.replace(b"\x01\x04\x02\x00", b"\x01\x04\x00\x00"),
        GOLDEN.replace(b"\x01\x04\x02\x00", b"\x01\x06\x02\x00"),
        GOLDEN.replace(b"\x02\x01\x02\x02\x02", b"\x02\x01\x02\x01\x02"),
        GOLDEN[:-4] + b"\x01\x06\x04\x00",
        GOLDEN[:-12] + b"\x02\x02\x03\x00\x00\x03\x00" + GOLDEN[-8:],
        GOLDEN[:-12] + b"\x01\x02\x00\x00" + GOLDEN[-8:],
        GOLDEN[:-12] + b"\x01\x02\x07\x00" + GOLDEN[-8:],
        GOLDEN[:-8] + b"\x01\x02\x01\x00" + GOLDEN[-4:],
        GOLDEN + b"\0",
        GOLDEN.ljust(SIZE_LIMIT + 1, b"\0"),
    ],
    ids=range(23),
)
def test_damage_is_refused(damaged: bytes) -> None:
    assert damaged != GOLDEN
    with pytest.raises(ProfileInvalid):
        decode_profile(damaged, VOLUMES)


def test_another_version_is_named() -> None:
    with pytest.raises(ProfileInvalid, match="version is 9"):
        decode_profile(GOLDEN[:4] + b"\x09" + GOLDEN[5:], VOLUMES)


def test_a_block_beyond_a_volumes_end_is_refused() -> None:
    smaller = {**VOLUMES, "disk0": TableRoot(ref=ZERO_REF, size=49 << 12)}
    with pytest.raises(ProfileInvalid):
        decode_profile(GOLDEN, smaller)


ACCESSES = st.builds(
    Access,
    st.floats(NOW, NOW + WEEK_SECONDS - 1),
    st.sampled_from(["", RESUME, POST, STEADY, IDLE]),
    st.sampled_from(["ram", "disk0"]),
    st.integers(0, 40),
    st.integers(1, 12),
    st.booleans(),
    st.booleans(),
)


@settings(max_examples=50, derandomize=True, database=None, deadline=None)
@given(st.lists(st.lists(ACCESSES, max_size=30), max_size=5))
def test_what_was_learnt_comes_back(observations: list[list[Access]]) -> None:
    profile = learnt(*observations)
    again = decode_profile(encode_profile(profile), VOLUMES)
    assert again.phases == dict(profile.phases)
    assert again.order(1) == profile.order(1)
    assert again.runs.keys() == profile.runs.keys()
    for key, context in profile.runs.items():
        mine = again.runs[key]
        assert (mine.trust, mine.successors) == (context.trust, context.successors)
        assert abs(mine.score - context.score) <= 3 / 8
        assert 0 <= context.last - mine.last <= 60


def test_what_machines_away_touch_is_left_alone_by_those_at_home() -> None:
    home = [*touches(3, 40), *touches(4, phase=POST)]
    profile = learnt(home, touches(3, 70, 71, phase=AWAY), home, home, home)
    assert blocks(profile, phases=(AWAY,)) == [70, 71]
    assert blocks(profile, phases=(RESUME,)) == [3, 40]
    assert blocks(profile) == [3, 40, 4, 70, 71]


def test_what_the_next_machine_away_does_not_touch_goes() -> None:
    home = [*touches(3, 40), *touches(4, phase=POST)]
    profile = learnt(home, touches(3, 70, 71, phase=AWAY), touches(71, phase=AWAY))
    assert blocks(profile, phases=(AWAY,)) == [71]
    profile = learnt(home, touches(70, 71, phase=AWAY), *[touches(71, phase=AWAY)] * 2)
    assert blocks(profile, least=1, phases=(AWAY,)) == [71]
    assert blocks(profile, phases=(RESUME,)) == [3, 40], "they have said nothing of these"


def test_a_resume_that_needs_what_machines_away_touched_has_it_first() -> None:
    profile = learnt(touches(3), touches(70, phase=AWAY), touches(3, 70))
    assert blocks(profile, phases=(RESUME,)) == [3, 70]
    assert blocks(profile, phases=(AWAY,)) == []


def test_what_machines_away_use_differently_does_not_spoil_what_the_others_use_alike() -> None:
    home = [*touches(*range(4)), *touches(40, phase=POST), *touches(5, phase=STEADY)]
    away = [touches(*range(100 * n, 100 * n + 30), phase=AWAY) for n in (1, 2)]
    profile = learnt(home, *away, home)
    assert not profile.fickle()
    ahead = [block for part in profile.foreseen() for run in part for block in run.blocks()]
    assert ("ram", 5) in ahead
    assert ("ram", 200) in ahead
    assert ("ram", 100) not in ahead, "the last machine away did not touch it"
