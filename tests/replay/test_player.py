# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import pytest

from replay import Operation, OperationGap, Response, play
from satchel.ids import OperationNumber


class Recorder:
    """An executor that echoes."""

    def __init__(self, last: int) -> None:
        self.last = OperationNumber(last)
        self.executed: list[int] = []

    def execute(self, operation: Operation) -> Response:
        self.executed.append(operation.number)
        self.last = operation.number
        return Response(operation.number, operation.payload)


def operations(*numbers: int) -> list[Operation]:
    return [Operation(OperationNumber(n), 0, 0, b"%d" % n) for n in numbers]


def test_plays_what_is_missing_and_skips_the_rest() -> None:
    executor, progress, responses = Recorder(2), [], []
    last = play(
        operations(1, 2, 3, 4),
        executor,
        total=4,
        on_progress=lambda done, total: progress.append((done, total)),
        on_response=responses.append,
    )
    assert last == 4
    assert executor.executed == [3, 4]
    assert progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert responses == [Response(OperationNumber(3), b"3"), Response(OperationNumber(4), b"4")]


def test_nothing_to_play() -> None:
    assert play([], Recorder(5)) == 5
    assert play(operations(1, 2), Recorder(5)) == 5


@pytest.mark.parametrize("numbers", [(4,), (3, 5)])
def test_a_gap_stops_it(numbers: tuple[int, ...]) -> None:
    executor = Recorder(2)
    with pytest.raises(OperationGap) as caught:
        play(operations(*numbers), executor)
    assert caught.value.number == numbers[-1]
    assert executor.executed == list(numbers[:-1])
