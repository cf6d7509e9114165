# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import random

from uplink import Crawl, Crawls

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
    gaps = [draw.gauss(1.0, 0.1) for _ in TREE]
    assert roots(TREE, gaps)[3:] == ["/r"] * 3


def test_nobody_opens_four_folders_in_a_second() -> None:
    assert roots(TREE, [0, 0.01, 0.2, 0.01, 0.3, 0.02])[3:] == ["/r"] * 3
