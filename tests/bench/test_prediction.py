# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a bench of prediction learns, and from what."""

import dataclasses

from bench.fetch import PARTS
from bench.fetch_prediction import WORKLOADS, accesses_of, learnt
from bench.recording import HELD_OUT, TRAINING, Access, Life, Mark, Recording, recordings
from replica import IDLE, RESUME, STEADY

LIFE = Life("try", False, {"ram": 1000}, {"ram": {5: 1, 700: 2}})


def recording(*blocks: int) -> Recording:
    """A life that touches these, two at a time: resumed after the first two, one operation of the
    next two, and so on."""
    accesses = tuple(Access(0.5, 0, False, "ram", block, 1) for block in blocks)
    marks = (
        Mark(2, 0, "resumed"),
        Mark(4, 0, "first add"),
        Mark(4, 0, "steady"),
        Mark(6, 0, "idle"),
    )
    return Recording("try", TRAINING, (LIFE,), accesses, marks)


def test_marks_tell_the_phases() -> None:
    accesses = list(accesses_of(recording(5, 700, 30, 31, 30, 60, 90, 91), 0, 100.0))
    assert [(a.phase, a.first) for a in accesses] == [
        (RESUME, 5),
        (RESUME, 700),
        ("first add", 30),
        ("first add", 31),
        (STEADY, 60),
        (IDLE, 90),
        (IDLE, 91),
    ]
    assert [a.at for a in accesses[:2]] == [100.5, 101.0]


def test_lives_of_one_service_teach_one_profile() -> None:
    strange = Recording("try", TRAINING, (dataclasses.replace(LIFE, service="other"),), (), ())
    profile = learnt([(recording(5, 700), 0), (strange, 0), (recording(5, 90), 0)], "try")
    assert [run.first for run in profile.order()] == [5, 90]
    assert [run.first for run in profile.order(1)] == [5, 90, 700]


def test_what_is_held_out_is_never_learnt_from() -> None:
    trained = {recording.workload for recording in recordings(TRAINING)}
    assert trained
    assert trained == {recording.workload for recording in recordings(HELD_OUT)}


def test_every_workload_whose_last_life_is_a_resume_can_be_measured_alone() -> None:
    resumed = {held.workload for held in recordings(HELD_OUT) if not held.lives[-1].booted}
    assert resumed == set(WORKLOADS)
    assert {f"prediction.{name}" for name in resumed} | {"prediction"} == set(PARTS)
