# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate answers falsely, and its operator may cut home off."""

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from client.places.surrogate import AnswerUnsigned
from client.platform.limit import Limit
from client.platform.settings import HOME, Policy
from client.session.answers import Answer
from client.session.feed import FeedState
from client.session.journal import Journal
from client.session.provisional import NotConfirmed
from client.session.reads import SAMPLED
from client.session.session import Session
from client.state.surrogate_keys import SurrogateKeyChanged
from replay import Operation, Response
from replay.frames import AgentFrame, FrameType
from satchel.ids import OperationNumber
from tests.attacks.wiretap import Wiretap
from tests.client.places import Places
from tests.client.replicas import InProcess, silence
from tests.client.world import World, operations, post
from tests.needs import requires
from tests.scripted import ScriptedGuest
from tests.waiting import eventually
from wire import AnswerKey, SignatureInvalid, Statement

START = OperationNumber(0)

CERTAIN = 20 * SAMPLED
"""Lies of which one is caught but once in a thousand million times."""

HONEST = int(os.environ.get("SATCHEL_HONEST_ANSWERS", "500000"))
"""Of each policy in a nightly run: a million together."""

FAR_SECONDS = 0.1

Lie = Callable[[bytes], bytes]


class Shelf(InProcess):
    """A read says what it was asked and which operation was the last one. lie: what becomes of
    an answer; it is not told which of them is a sample."""

    def __init__(self, name: str, lie: Lie = lambda truth: truth, **how: float) -> None:
        super().__init__(name, **how)  # type: ignore[arg-type]
        self.lie = lie
        self.told = 0
        self.ask: Callable[[bytes], None] = lambda payload: None
        self.says = lambda operation: self._say(b"did %d" % operation.number)

    def read(self, operations: Sequence[Operation]) -> list[Response]:
        answers = super().read(operations)
        for operation in operations:
            self.ask(operation.payload)
        return [Response(a.number, self._say(b"after %d" % self.last)) for a in answers]

    def _say(self, truth: bytes) -> bytes:
        said = self.lie(truth)
        self.told += said != truth
        return said


def mutated(chance: random.Random) -> Lie:
    """One byte of the answer is another one, or is missing, or one too many."""

    def lie(truth: bytes) -> bytes:
        place, byte = chance.randrange(len(truth)), chance.randrange(1, 256)
        return chance.choice(
            [
                truth[:place] + bytes([truth[place] ^ byte]) + truth[place + 1 :],
                truth[:place] + truth[place + 1 :],
                truth[:place] + bytes([byte]) + truth[place:],
            ]
        )

    return lie


def start(
    journal: Journal,
    policy: Policy,
    limit: str = "60s,20",
    response_seconds: float = 30.0,
    **how: object,
) -> Session:
    return Session(
        journal,
        stateful=True,
        response_seconds=response_seconds,
        policy=policy,
        read_only=lambda operation: operation.payload.startswith(b"read"),
        limit=Limit.parse(limit),
        **how,  # type: ignore[arg-type]
    )


def call(session: Session, text: str = "write") -> Answer:
    return session.call(lambda number, time_ns, seed: text.encode())


def meet(session: Session, *replicas: InProcess) -> None:
    """All take part and have executed one operation; the last one is the nearest."""
    for replica in replicas:
        session.add(replica, START)
    call(session)
    assert eventually(lambda: all(replica.last == 1 for replica in replicas))
    for feed in session.feeds():
        for _ in range(64):
            feed.pace.note(0.001 if feed.name == replicas[-1].name else 1.0)


def caught(session: Session) -> bool:
    feed = session.feed("a")
    return feed is not None and feed.state is FeedState.QUARANTINED


def reads_until_caught(session: Session, most: int) -> int:
    for count in range(most):
        if caught(session):
            return count
        call(session, "read")
    assert eventually(lambda: caught(session))
    return most


@pytest.mark.parametrize("policy", ["nearest", "hedge"])
def test_one_that_always_lies_is_caught_by_a_sample(places: Places, policy: Policy) -> None:
    session = start(places.journal(), policy)
    liar = Shelf("a")
    meet(session, Shelf(HOME), liar)
    liar.lie = lambda truth: truth + b" and more"
    reads_until_caught(session, CERTAIN)
    assert call(session, "read").payload == b"after 1"
    session.close()


def test_ten_of_ten_liars_are_caught_in_about_the_number_of_reads_that_samples_promise(
    tmp_path: Path,
) -> None:
    """Each lies once in four times. A limit of its own would have home asked more often."""
    counts = []
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        places = Places(folder)
        session, chance = start(places.journal(), "nearest", "unlimited"), random.Random(number)
        liar = Shelf("a")
        meet(session, Shelf(HOME), liar)
        lie = mutated(chance)
        liar.lie = lambda truth, c=chance, f=lie: f(truth) if c.random() < 0.25 else truth  # type: ignore[misc]
        counts.append(reads_until_caught(session, 4 * CERTAIN))
        session.close()
        places.close()
    assert sum(counts) / len(counts) < 4 * 4 * SAMPLED  # four times what is expected


def test_an_honest_surrogate_is_never_accused_however_much_is_written_meanwhile(
    places: Places,
) -> None:
    """Samples are compared at the same number: home, which is slower, may not have seen more."""
    session = start(places.journal(), "nearest", sampled=1)
    home = Shelf(HOME, slow=0.003)
    meet(session, home, Shelf("a"))
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            call(session)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(500):
        call(session, "read")
    done.set()
    for writer in writers:
        writer.join()
    assert session.tally.samples > 100
    assert session.tally.diverged == 0
    assert not caught(session)
    session.close()


def test_one_that_comes_while_a_read_waits_is_not_accused(places: Places) -> None:
    """It has executed more than the first one, and home compares it at that state."""
    session = start(places.journal(), "nearest", sampled=1)
    home, first = Shelf(HOME), Shelf("a")
    meet(session, home, first)
    home.gate.clear()
    first.gate.clear()
    last, sent = session.journal.last, session.tally.sent_bytes
    with ThreadPoolExecutor(2) as pool:
        read = pool.submit(call, session, "read")
        assert eventually(lambda: session.tally.sent_bytes > sent)
        write = pool.submit(call, session)
        assert eventually(lambda: session.journal.last == last + 1)
        session.add(Shelf("b", last=last + 1), OperationNumber(last + 1)).joined.wait()
        first.fault = silence("a")
        first.gate.set()
        session.drop("a")
        assert (read.result().leader, read.result().payload) == ("b", b"after %d" % (last + 1))
        home.gate.set()
        write.result()
    assert eventually(lambda: session.tally.samples == 1)
    assert session.tally.diverged == session.tally.quarantined == 0
    session.close()


def test_one_that_lies_and_leaves_while_home_is_cut_off_is_caught(places: Places) -> None:
    session = start(places.journal(), "nearest")
    home, liar = Shelf(HOME), Shelf("a")
    meet(session, home, liar)
    home.fault = silence(HOME)
    liar.lie = lambda truth: b"a lie"
    for _ in range(15):  # from the tenth on all are samples
        assert call(session, "read").payload == b"a lie"
    session.drop("a")
    session.add(Shelf("b", last=1), OperationNumber(1))
    call(session)
    home.fault = None
    assert eventually(lambda: session.tally.quarantined == 1)
    assert eventually(lambda: home.last == 2)
    assert session.tally.divergences[0]["replicas"] == ["a", HOME]
    session.close()


def test_the_size_of_what_home_compares_tells_nothing(places: Places) -> None:
    session = start(places.journal(), "nearest")
    home = Shelf(HOME)
    meet(session, home, Shelf("a"))
    small, large = b"read", b"read" + bytes(5000)
    asked: list[bytes] = []
    home.ask = asked.append
    for _ in range(40):
        for text in (small, large, small):
            session.call(lambda number, time_ns, seed, text=text: text)  # type: ignore[misc]
        call(session)
    assert eventually(lambda: session.tally.samples == 40)
    assert {small, large} == set(asked)
    assert len(set(home.compared)) == 1
    session.close()


@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("policy", ["all", "nearest"])
@pytest.mark.parametrize("count", [500, pytest.param(HONEST, marks=pytest.mark.nightly)])
def test_honest_answers_are_never_called_lies(places: Places, policy: Policy, count: int) -> None:
    """Reads and writes of several at once, while surrogates come and go and home is slow at
    times."""
    session = start(places.journal(), policy, "unlimited", 600.0)  # a busy host is no lie
    chance, left = random.Random(29), [count]
    home = Shelf(HOME)
    meet(session, home, Shelf("a"), Shelf("b"))
    lock = threading.Lock()

    def work(seed: int) -> None:
        mine = random.Random(seed)
        while True:
            with lock:
                if left[0] <= 0:
                    return
                left[0] -= 1
            call(session, mine.choice(["read", "read", "write"]))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        home.slow = chance.choice([0.0, 0.0, 0.002])
        name = chance.choice("ab")
        session.drop(name)
        last = session.journal.last
        session.add(Shelf(name, last=last), last)
        workers[0].join(0.2)
    assert session.tally.answered >= count
    assert session.tally.diverged == session.tally.quarantined == 0, session.tally.divergences
    session.close()


def test_with_home_cut_off_no_more_than_the_limit_is_believed(places: Places) -> None:
    session = start(places.journal(), "nearest")
    home, liar = Shelf(HOME), Shelf("a")
    meet(session, home, liar)
    home.fault = silence(HOME)
    liar.lie = lambda truth: b"a lie"
    assert eventually(lambda: session.provisional.count == 0)
    believed = 0
    for text in ["write", "read"] * 100:
        with contextlib.suppress(NotConfirmed):
            believed += call(session, text).payload == b"a lie"
    assert 0 < believed <= 20
    last = session.journal.last
    with pytest.raises(NotConfirmed, match="home does not answer"):
        call(session)
    assert session.journal.last == last  # and nothing more is logged
    home.fault = None
    assert eventually(lambda: caught(session))
    session.close()


def test_many_at_once_are_held_to_the_same_limit(places: Places) -> None:
    session = start(places.journal(), "all")
    home, liar = Shelf(HOME), Shelf("a")
    meet(session, home, liar)
    home.gate.clear()
    liar.lie = lambda truth: b"a lie"
    answers: list[Answer] = []
    callers = [threading.Thread(target=lambda: answers.append(call(session))) for _ in range(60)]
    for caller in callers:
        caller.start()
    assert eventually(lambda: liar.last == 61)
    assert len([a for a in list(answers) if a.payload == b"a lie"]) <= 20
    home.gate.set()
    for caller in callers:
        caller.join()
    assert sum(answer.payload == b"a lie" for answer in answers) <= 20
    assert len(answers) == 60  # home has answered the others
    session.close()


def test_after_the_time_nothing_more_is_believed(places: Places) -> None:
    session = start(places.journal(), "all", "1s,1000")
    home, near = Shelf(HOME), Shelf("a")
    meet(session, home, near)
    home.fault = silence(HOME)
    assert call(session).leader == "a"

    def refused() -> bool:
        try:
            call(session)
        except NotConfirmed:
            return True
        return False

    assert eventually(refused)
    home.fault = None
    assert eventually(lambda: session.provisional.count == 0)
    assert call(session).number == session.journal.last
    session.close()


@pytest.mark.parametrize("how", [{"limit": "unlimited"}, {"trusted": ["a"]}])
def test_the_owner_may_say_that_home_is_off(places: Places, how: dict[str, object]) -> None:
    session = start(places.journal(), "all", **how)  # type: ignore[arg-type]
    home = Shelf(HOME)
    meet(session, home, Shelf("a"))
    home.fault = silence(HOME)
    assert {call(session).leader for _ in range(100)} == {"a"}
    session.close()


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_each_mutated_answer_is_caught(places: Places, count: int) -> None:
    """Under `all`: by the very operation that is answered falsely."""
    session = start(places.journal(), "all")
    home = Shelf(HOME)
    session.add(home, START)
    lie, chance = mutated(random.Random(29)), random.Random(29)
    for number in range(count):
        liar = Shelf("a", lie, last=session.journal.last)
        feed = session.add(liar, session.journal.last)
        for _ in range(chance.randrange(1, 5)):
            call(session)
        assert eventually(lambda f=feed: f.state is FeedState.QUARANTINED), number  # type: ignore[misc]
        session.drop("a")
    assert session.tally.diverged >= count
    session.close()


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
def test_a_whole_session_whose_home_is_cut_off_stops(carried: World) -> None:
    runner = carried.runner(provisional="600s,5")
    url = carried.proxy(runner)
    runner.move("a")
    assert post(url).status_code == 200
    assert eventually(lambda: runner.status()["provisional"] == 0)
    carried.home.cut()
    answers = [post(url) for _ in range(8)]
    assert [answer.status_code for answer in answers[:5]] == [200] * 5
    assert {answer.status_code for answer in answers[5:]} == {503}
    assert runner.status()["provisional"] == 5
    carried.home.mend()
    assert eventually(lambda: runner.status()["provisional"] == 0)
    assert post(url).status_code == 200


class Watchful(ScriptedGuest):
    """Lies about a read unless something goes to home meanwhile, as often as it likes."""

    tap: Wiretap
    chance = random.Random(4)
    rate = 1.0
    lies = 0

    def _reply(self, request: AgentFrame) -> bytes:
        said, moment = super()._reply(request), time.monotonic()
        if FrameType(request.type) is not FrameType.READ or self.chance.random() > self.rate:
            return said
        time.sleep(0.04)
        if self.tap.sent_since(moment):
            return said
        truth, self.history = self.history, "what its operator would like"
        said, self.history = super()._reply(request), truth
        Watchful.lies += 1
        return said


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
@pytest.mark.parametrize(
    ("rate", "reads"), [(1.0, 400), pytest.param(0.05, 2800, marks=pytest.mark.nightly)]
)
def test_one_that_sees_each_packet_is_caught(
    carried: World, tmp_path: Path, rate: float, reads: int
) -> None:
    """It lies when nothing leaves for home. docs/security.md promises 2,800 reads at 99.9 % for a
    surrogate that lies once in twenty reads, and 140 lies at any rate. Home is far away, so that
    reads are the surrogate's."""
    tap = Wiretap(carried.home.sshd.port, FAR_SECONDS)
    Watchful.tap, Watchful.rate, Watchful.lies = tap, rate, 0
    carried.spots["a"].driver.guest = Watchful
    home = tap.peer(carried.settings.home, tmp_path)
    runner = carried.runner(home=home, policy="nearest")
    url = carried.proxy(runner)
    runner.move("a")
    with httpx2.Client(base_url=url, timeout=30, trust_env=False) as reader:
        for number in range(reads):
            if operations(runner).tally.quarantined:
                break
            reader.get(f"/pages/{number}")
            if number % 7 == 0:
                reader.post("/api/notes", content=b"x")
    assert eventually(lambda: operations(runner).tally.quarantined > 0), Watchful.lies
    print(f"caught after {number} reads and {Watchful.lies} lies")
    assert Watchful.lies > 0
    runner.close()
    tap.close()


class Forger:
    """The key that a hostile surrogate names, and what it puts in the place of a signature."""

    def __init__(self, named: AnswerKey, forge: Callable[[Statement], bytes]) -> None:
        self.public = named.public
        self.sign = forge


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
@pytest.mark.parametrize("how", ["unsigned", "another's key", "another answer", "a read's"])
def test_an_answer_that_its_surrogate_does_not_stand_by_is_not_believed(
    carried: World, how: str, tmp_path: Path
) -> None:
    runner, host = carried.runner(), carried.spots["a"].host
    url, mine, other = carried.proxy(runner), host.answer_key, AnswerKey(tmp_path / "other")
    runner.move("a")
    assert post(url).status_code == 200
    assert eventually(lambda: operations(runner).tally.later_responses == 1)
    forge: dict[str, Callable[[Statement], bytes]] = {
        "unsigned": lambda said: b"",
        "another's key": other.sign,
        "another answer": lambda said: mine.sign(replace(said, answered=bytes(32))),
        "a read's": lambda said: mine.sign(replace(said, kind="read")),
    }
    host.answer_key = Forger(mine, forge[how])  # type: ignore[assignment]
    for _ in range(3):
        assert post(url).headers["X-Satchel-Leader"] == "home"
    feed = operations(runner).feed("a")
    assert feed is not None and feed.state is FeedState.LOST
    assert isinstance(feed.error, AnswerUnsigned if how == "unsigned" else SignatureInvalid)


@requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")
@pytest.mark.parametrize("named", ["another key", "no key"])
def test_a_surrogate_cannot_become_another_or_stop_signing(
    carried: World, named: str, tmp_path: Path
) -> None:
    host = carried.spots["a"].host
    first = carried.runner()
    first.move("a")
    first.close()
    host.answer_key = AnswerKey(tmp_path / "other")
    if named == "no key":
        host.answer_key.public = ""
    again = carried.runner()
    with pytest.raises(SurrogateKeyChanged):
        again.move("a")
    assert carried.spots["a"].replicas() == []
    again.move("b")
    assert post(carried.proxy(again)).status_code == 200
