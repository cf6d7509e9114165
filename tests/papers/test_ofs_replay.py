# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Small replays, whose messages and waits are counted by hand."""

from random import Random

import pytest

from papers.ofs.least import least
from papers.ofs.network import FRAME, Clock, Line, Link, Traffic, size_of
from papers.ofs.plan import Plan
from papers.ofs.replay import OPTIMAL, replay
from papers.ofs.splits import Workload
from papers.ofs.trace import ABSENT, Access, File, Kind, Trace
from shares.node import encode
from shares.protocol import POLICIES, Blocks, Fetch, FileId, Flush, Push
from wire.conversation.duplex import HEADER

R, W = Kind.READ, Kind.WRITE
SECOND = 1_000_000
LINK = Link(0.1, 1e9)
SLACK = 1e-4
"""Seconds that a few blocks take over LINK, and more."""

HERE, AWAY = False, True


def plan(size: int, *accesses: tuple[bool, Kind, int, int]) -> Plan:
    """One file; each access a second after the one before: where, what, offset and length."""
    found = tuple(
        Access(at * SECOND, 0, int(away), 0, kind, 0, offset, length)
        for at, (away, kind, offset, length) in enumerate(accesses)
    )
    trace = Trace("try", ("here", "away"), ("",), (File("a", size),), found)
    return Plan(Workload("threads", trace, tuple(access[0] for access in accesses)))


PING_PONG = (
    (HERE, R, 0, 4096),  # native: nothing
    (AWAY, R, 0, 4096),  # the open engages the mobile; the content is at home
    (HERE, W, 0, 4096),  # the ownership: one round trip; the attributes are here
    (AWAY, R, 0, 4096),  # recalled, unless it was pushed
)


def test_write_invalidate_recalls_what_is_read_elsewhere() -> None:
    done = replay(plan(4096, *PING_PONG), "write-invalidate", LINK)
    # The block, and at the close its file's time; the content of both goes home with that.
    twice = dict.fromkeys(("Acquire", "Ownership", "Recall", "RecallReply"), 2)
    once = dict.fromkeys(("Engage", "EngageReply", "Flush", "Ack"), 1)
    assert done.traffic.messages == once | twice
    assert done.latencies == pytest.approx([0, 0, 0.1, 0.1], abs=SLACK)
    # The other node's program opens the file, thinks for two seconds and waits for the content.
    assert done.seconds == pytest.approx(1 + 0.1 + 2 + 0.1, abs=SLACK)


def test_optimal_pushes_it_while_the_program_thinks() -> None:
    done = replay(plan(4096, *PING_PONG), OPTIMAL, LINK)
    twice = dict.fromkeys(("Acquire", "Ownership", "Push", "Ack"), 2)
    assert done.traffic.messages == {"Engage": 1, "EngageReply": 1} | twice
    assert done.latencies == pytest.approx([0, 0, 0.1, 0], abs=SLACK)


def test_write_update_pushes_each_write_and_delayed_update_none_before_it_has_learnt() -> None:
    writes = (*PING_PONG[:3], (HERE, W, 0, 10), (HERE, W, 0, 10), PING_PONG[3])
    pushed = replay(plan(4096, *writes), "write-update", LINK)
    assert pushed.traffic.messages["Push"] == 3 + 1  # and the time, at the close
    assert pushed.traffic.messages["Acquire"] == 3 + 1
    assert pushed.latencies == pytest.approx([0, 0, 0.1, 0.1, 0.1, 0], abs=SLACK)
    delayed = replay(plan(4096, *writes), "delayed-update", LINK)
    assert delayed.traffic.messages["Push"] == 0
    assert delayed.latencies == pytest.approx([0, 0, 0.1, 0, 0, 0.1], abs=SLACK)


def test_delayed_update_pushes_after_as_many_overwrites_as_the_last_time() -> None:
    turn = ((HERE, W, 0, 10), (HERE, W, 0, 10), (HERE, W, 0, 10), (AWAY, R, 0, 10))
    done = replay(plan(4096, *PING_PONG[:2], *turn, *turn), "delayed-update", LINK)
    assert done.traffic.messages["Push"] == 1
    # The last read waits for the time that the close before it has set; the others had no close.
    assert done.latencies[2:] == pytest.approx([0.1, 0, 0, 0.1, 0.1, 0, 0, 0.1], abs=SLACK)


def test_size_and_content_are_asked_for_together() -> None:
    """They were asked for one after the other, which real nodes never did for reads."""
    made = [(AWAY, W, 0, 10), (HERE, R, 0, 10), (AWAY, W, 10, 10), (HERE, R, 0, 20)]
    done = replay(plan(ABSENT, *made, (HERE, W, 20, 10)), "write-invalidate", LINK)
    assert done.traffic.messages["Fetch"] == 4
    assert done.traffic.messages["Acquire"] == 2
    assert done.latencies == pytest.approx([0, 0.1, 0.1, 0.1, 0.1], abs=SLACK)


def test_what_one_node_makes_and_uses_goes_home_when_it_is_closed() -> None:
    done = replay(plan(ABSENT, (HERE, W, 0, 9000), (HERE, R, 0, 9000)), "write-update", LINK)
    assert done.traffic.messages == {"Flush": 1, "Ack": 1}
    assert done.traffic.closes == done.traffic.bytes["Flush"] > 9000
    assert done.latencies == [0, 0]
    assert done.opens == pytest.approx(0.1, abs=SLACK)  # it is made at home


def programs(size: int, *accesses: tuple[int, bool, Kind, int]) -> Plan:
    """One program for each access: at which second it opens a file, where, what it does to its
    first ten bytes, and which file that is. It closes it at once."""
    found = tuple(
        Access(at * SECOND, 0, task, 0, kind, file, 0, 10)
        for task, (at, _, kind, file) in enumerate(accesses)
    )
    files = tuple(File(str(number), size) for number in range(max(a[3] for a in accesses) + 1))
    trace = Trace("try", ("",) * len(accesses), ("",), files, found)
    return Plan(Workload("threads", trace, tuple(access[1] for access in accesses)))


@pytest.mark.parametrize(
    ("uses", "opens"),
    [
        ([(0, HERE, W, 0), (1, HERE, W, 1), (2, HERE, W, 2)], 1),  # the folder is its own then
        ([(0, HERE, W, 0), (1, AWAY, W, 1), (2, HERE, W, 2)], 1 + 1 + 1),  # and is called back
        ([(0, AWAY, W, 0), (1, HERE, W, 1), (2, HERE, W, 2)], 2),  # the other node knows it
        ([(0, HERE, W, 0), (1, HERE, W, 1), (2, AWAY, R, 1)], 1 + 1),  # engaged without a wait
    ],
)
def test_files_in_the_mobiles_own_folder_are_made_ahead(
    uses: list[tuple[int, bool, Kind, int]], opens: int
) -> None:
    done = replay(programs(ABSENT, *uses), "write-invalidate", LINK)
    assert done.opens == pytest.approx(0.1 * opens, abs=SLACK)
    assert done.latencies == pytest.approx([0, 0, 0], abs=SLACK)


@pytest.mark.parametrize(
    ("uses", "opens"),
    [
        # The other node looks at what is at home, and is called back without a wait.
        ([(0, HERE, W, 0), (1, AWAY, R, 0), (2, HERE, W, 1), (3, HERE, W, 2)], 1),
        # It makes a file itself: home asks the mobile before, which makes the next one at home.
        ([(0, HERE, W, 0), (1, AWAY, W, 1), (2, HERE, W, 2), (3, HERE, W, 3)], 1 + 1 + 1),
    ],
)
def test_with_relaxation_files_are_made_ahead_in_a_folder_that_others_know(
    uses: list[tuple[int, bool, Kind, int]], opens: int
) -> None:
    done = replay(programs(ABSENT, *uses), "write-invalidate", LINK, 5.0)
    assert done.opens == pytest.approx(0.1 * opens, abs=SLACK)


@pytest.mark.parametrize(("pause", "asked"), [(29, 0), (31, 1)])
def test_a_file_that_was_read_is_open_for_thirty_seconds_more(pause: int, asked: int) -> None:
    reads = [(1, HERE, R, 0), (1 + pause, HERE, R, 0)]
    done = replay(programs(4096, *reads), "write-invalidate", LINK)
    assert done.opens == pytest.approx(0.1 * asked, abs=SLACK)
    assert done.latencies == [0, 0]  # the content stays: nobody else wanted it
    assert not done.traffic.messages


def test_128_files_rest_at_most() -> None:
    last = replay(programs(4096, (0, HERE, R, 129)), "write-invalidate", LINK)
    assert last.opens == 0
    first = replay(programs(4096, (0, HERE, R, 0), (1, HERE, R, 129)), "write-invalidate", LINK)
    assert first.opens == pytest.approx(0.1, abs=SLACK)


def test_the_beginning_of_a_file_comes_with_its_open() -> None:
    """The read waited for it once more."""
    done = replay(programs(ABSENT, (0, AWAY, W, 0), (1, HERE, R, 0)), "write-invalidate", LINK)
    assert done.traffic.messages["Fetch"] == 1
    assert done.latencies == [0, 0]
    assert done.opens == pytest.approx(0.1, abs=SLACK)


def test_what_was_written_and_is_opened_elsewhere_is_closed_and_has_to_be_opened_again() -> None:
    uses = [(0, HERE, W, 0), (2, AWAY, R, 0), (4, HERE, R, 0)]
    done = replay(programs(4096, *uses), "write-invalidate", LINK)
    # To write it, and the mobile's again; the mobile is engaged without a wait.
    assert done.opens == pytest.approx(0.1 + 0.1, abs=SLACK)
    assert done.latencies == [0, 0, 0]
    assert done.traffic.messages["Engage"] == 1
    assert done.traffic.messages["Blocks"] == 1  # what it had had


def test_a_relaxed_copy_is_read_until_it_is_too_old() -> None:
    reads = [(HERE, R, 0, 10), *[(AWAY, W, 0, 10), (HERE, R, 0, 10)] * 4]
    strong = replay(plan(4096, *reads), "write-invalidate", LINK)
    relaxed = replay(plan(4096, *reads), "write-invalidate", LINK, relaxation=3.0)
    # Strong: each read lacks the content, and one more the time that the last close has set.
    assert strong.traffic.messages["Invalidate"] == 4 + 1
    # Relaxed: the copy that was invalidated is used on, and nobody asks while it is. Then the
    # content is lent, and its owner writes on.
    assert relaxed.traffic.messages["Invalidate"] == 1 + 1
    assert relaxed.traffic.messages["Fetch"] < strong.traffic.messages["Fetch"]
    assert sum(relaxed.latencies) < sum(strong.latencies)


def test_a_relaxed_copy_that_nobody_writes_is_asked_for_once() -> None:
    reads = [(HERE, R, 0, 10), (AWAY, W, 0, 10), *[(HERE, R, 0, 10)] * 9]
    done = replay(plan(4096, *reads), "write-invalidate", LINK, relaxation=1.0)
    again = replay(plan(4096, *reads, *reads[2:]), "write-invalidate", LINK, relaxation=1.0)
    assert again.seconds > done.seconds + 5
    assert again.traffic.messages["Fetch"] == done.traffic.messages["Fetch"]


@pytest.mark.parametrize("relaxation", [0.0, 5.0])
def test_a_native_file_does_not_grow_old(relaxation: float) -> None:
    """With relaxation its copies expired, and nobody asked for them: the read never ended."""
    reads = [(HERE, R, 0, 10)] * 8
    done = replay(plan(4096, *reads), "delayed-update", LINK, relaxation)
    assert done.latencies == [0] * 8


def held(_: FileId, number: int) -> int:
    return 4096 if number == 0 else 40


def test_sizes_are_those_of_the_encoding_with_its_frame() -> None:
    assert HEADER.size == FRAME
    fetch = Fetch(FileId(1), 0, 2, (0, 0))
    assert size_of(fetch, held) == FRAME + len(encode(fetch))
    noise = Random(1).randbytes(4096 + 39) + b"."
    push = Push(FileId(1), 0, 2, (0, 1), noise.ljust(8192, b"\0"))
    assert size_of(Push(FileId(1), 0, 2, (0, 1)), held) == FRAME + len(encode(push))


def test_the_end_of_a_file_goes_as_far_as_it_reaches_and_its_size_as_40_bytes() -> None:
    made = [(AWAY, W, 0, 10), (HERE, R, 0, 10), (AWAY, W, 10, 10), (HERE, R, 0, 20)]
    done = replay(plan(ABSENT, *made), "write-invalidate", LINK)
    empty = size_of(Blocks(FileId(1), 0, 1, (), b"", (1,), (False,)), held)
    content = done.traffic.bytes["Blocks"] - done.traffic.messages["Blocks"] * empty
    each = 8 + 1 + 2  # its number, whether it is compressed, its length
    assert content == 2 * (each + 40) + (each + 10) + (each + 20)


def test_a_line_is_in_order_and_takes_time_for_each_byte() -> None:
    clock, traffic, came = Clock(), Traffic(), []
    line = Line(clock, Link(0.2, 1000.0), traffic, held)
    big, small = Push(FileId(1), 0, 1, (0,)), Fetch(FileId(1), 0, 1, (0,))
    line.send(big, lambda: came.append(("big", clock.now)))
    line.send(small, lambda: came.append(("small", clock.now)))
    clock.run()
    first = size_of(big, held) / 1000
    both = first + size_of(small, held) / 1000
    assert came == [("big", pytest.approx(first + 0.1)), ("small", pytest.approx(both + 0.1))]
    assert traffic.total == size_of(big, held) + size_of(small, held)


def test_a_replay_is_the_same_each_time() -> None:
    one, two = (replay(plan(4096, *PING_PONG * 3), "delayed-update", LINK) for _ in range(2))
    assert one.latencies == two.latencies
    assert one.traffic.bytes == two.traffic.bytes


def test_no_policy_moves_less_than_each_version_that_is_read_once() -> None:
    turn = (
        (HERE, W, 0, 10),
        (HERE, W, 0, 10),
        (AWAY, R, 0, 10),
        (AWAY, W, 0, 4096),
        (HERE, R, 0, 9),
    )
    made = plan(4096, *turn, *turn)
    bound = least(made)
    # Each turn brings the block there and back; the close at the end its file's time.
    block, extent = 10 + 4096, 10 + 40
    assert bound.bytes["content"] == 4 * block + extent
    assert bound.closes == size_of(Flush(FileId(1), -1, 1, (-1,)), lambda file, number: 40)
    for name in (*POLICIES, OPTIMAL):
        found = replay(made, name, LINK).traffic
        assert bound.total <= found.total
        assert bound.total - bound.closes <= found.total - found.closes
