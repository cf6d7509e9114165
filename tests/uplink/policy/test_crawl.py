# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import random

from uplink.policy import Crawl, Crawls

TREE = ["/r", "/r/a", "/r/a/x", "/r/a/y", "/r/b", "/r/b/z"]
BREADTH = ["/r", "/r/a", "/r/b", "/r/a/x", "/r/a/y", "/r/b/z"]


def root_of(crawl: Crawl | None) -> str | None:
    return None if crawl is None else crawl.root


def roots(folders: list[str], gaps: list[float]) -> list[str | None]:
    crawls, now, found = Crawls(), 0.0, []
    for folder, gap in zip(folders, gaps, strict=True):
        now += gap
        found.append(root_of(crawls.asked("program", folder, now)))
    return found


def test_a_steady_walk_is_a_crawl_from_the_fourth_request_on() -> None:
    for order in (TREE, BREADTH):
        assert roots(order, [0.1] * 6) == [None, None, None, "/r", "/r", "/r"]


def test_a_person_is_not_steady() -> None:
    assert roots(TREE, [1, 0.5, 9, 2, 1, 20]) == [None] * 6


def test_a_walk_without_an_order_is_none() -> None:
    jumping = ["/r", "/r/a/x", "/r/b/z", "/r/a", "/r/b", "/r/a/y"]
    assert roots(jumping, [0.1] * 6) == [None] * 6


def test_folders_that_are_not_below_one_root_begin_anew() -> None:
    assert roots(["/a", "/b", "/c", "/d"], [0.1] * 4) == [None] * 4


def test_who_has_crawled_a_tree_is_expected_to_do_so_again() -> None:
    crawls = Crawls()
    for number, folder in enumerate(TREE):
        crawls.asked("first", folder, number * 0.1, "rclone")
    assert crawls.asked("second", "/r", 100.0, "rclone") == Crawl("/r", 0.0)
    assert root_of(crawls.asked("second", "/r/a", 100.1, "rclone")) == "/r"
    assert crawls.asked("third", "/r", 100.0, "a person's") is None
    assert crawls.asked("second", "/other", 100.2, "rclone") is None


def test_programs_are_told_apart() -> None:
    crawls = Crawls()
    for number, folder in enumerate(TREE):
        assert crawls.asked(number % 2, folder, number * 0.1) is None


def test_small_differences_of_the_intervals_do_no_harm() -> None:
    draw = random.Random(1)
    gaps = [draw.gauss(0.8, 0.08) for _ in TREE]  # slower ones are perhaps a person
    assert roots(TREE, gaps)[3:] == ["/r"] * 3


def test_nobody_opens_four_folders_in_a_second() -> None:
    assert roots(TREE, [0, 0.01, 0.2, 0.01, 0.3, 0.02])[3:] == ["/r"] * 3


def _walk(draw: random.Random, *, breadth: bool) -> list[str]:
    """Folders of a tree, as a program asks for them."""
    waiting, walked = ["/r"], []
    while waiting:
        folder = waiting.pop(0 if breadth else -1)
        walked.append(folder)
        if folder.count("/") < 4:
            waiting += [f"{folder}/{number}" for number in range(draw.randint(1, 4))]
    return walked


def _browse(draw: random.Random) -> list[str]:
    """Folders of a tree, as a person opens them: down, mostly, or back up, or to one beside."""
    here, seen = ["r"], []
    for _ in range(draw.randint(5, 40)):
        seen.append("/" + "/".join(here))
        if len(here) < 5 and draw.random() < 0.6:
            here = [*here, str(draw.randrange(4))]
        elif len(here) > 1:
            here = [*here[:-1], *([str(draw.randrange(4))] if draw.random() < 0.5 else [])]
    return seen


def test_200_labelled_walks_are_told_apart() -> None:
    """Programs ask every 2 ms to 2 s, with a jitter of a tenth; people think for seconds, and most
    thoughts are short and a few long (log-normal, sigma 1, median 2 to 8 s)."""
    draw, right, wrong, missed, crawled = random.Random(7), 0, 0, 0, 0
    for number in range(200):
        crawls, now, program = Crawls(), 0.0, number % 2 == 0
        folders = _walk(draw, breadth=draw.random() < 0.5) if program else _browse(draw)
        pause = draw.choice((0.002, 0.02, 0.2, 2.0)) if program else draw.uniform(2, 8)
        for place, folder in enumerate(folders):
            told = crawls.asked("it", folder, now) is not None
            if program and place >= 3:  # before the fourth nobody can know
                crawled += 1
                missed += not told
            right += told and program
            wrong += told and not program
            spread = draw.gauss(1, 0.1) if program else draw.lognormvariate(0, 1)
            now += pause * max(0.01, spread)
    assert right / (right + wrong) >= 0.99
    assert 1 - missed / crawled >= 0.95
