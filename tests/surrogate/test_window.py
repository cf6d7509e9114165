# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""How far is looked ahead follows from how often that was right."""

from surrogate.prefetch.window import FIRST_STEP, JUDGED_AFTER, STEPS, Block, ReadaheadWindow


def ram(first: int, count: int) -> list[Block]:
    return [("ram", number) for number in range(first, first + count)]


def judged(window: ReadaheadWindow, used: int) -> None:
    """A batch of ten of which so many are used, and then what it takes until it is judged."""
    window.asked(ram(0, 10))
    window.touched(ram(0, used))
    window.touched(ram(1000, 20 + JUDGED_AFTER - used))


def test_it_goes_up_while_predictions_are_right() -> None:
    window = ReadaheadWindow()
    assert window.step == STEPS[FIRST_STEP]
    for step in (*STEPS[FIRST_STEP + 1 :], STEPS[-1]):
        judged(window, 8)
        assert window.step == step


def test_it_goes_down_faster_and_not_to_nothing() -> None:
    window = ReadaheadWindow()
    judged(window, 8)
    judged(window, 7)
    assert window.step == STEPS[FIRST_STEP - 1]
    for _ in range(3):
        judged(window, 0)
    assert window.step == STEPS[0]
    judged(window, 10)
    assert window.step == STEPS[1]


def test_nothing_is_judged_before_the_machine_has_gone_on() -> None:
    window = ReadaheadWindow()
    window.asked(ram(0, 10))
    window.touched(ram(1000, 19 + JUDGED_AFTER))
    assert window.step == STEPS[FIRST_STEP]
    window.touched(ram(2000, 1))
    assert window.step == STEPS[FIRST_STEP - 2]


def test_a_request_is_at_most_512_kb_and_steps_are_ordered() -> None:
    assert STEPS[-1].blocks * 4096 == 512 << 10
    assert [step.blocks for step in STEPS] == sorted(step.blocks for step in STEPS)
    assert [step.trust for step in STEPS] == sorted((s.trust for s in STEPS), reverse=True)
