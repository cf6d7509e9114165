# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""When an early answer is true."""

from uplink.policy import Condition, DavEntry, Knowledge


def knowledge() -> Knowledge:
    made = Knowledge()
    entries = [
        DavEntry("/photos/", folder=True),
        DavEntry("/photos/1%20a.jpg", etag='"one"'),
        DavEntry("/photos/weak.jpg", etag='W/"weak"'),
        DavEntry("/photos/sub/", folder=True),
    ]
    made.listed("/photos/", "1", entries)
    return made


def test_what_a_listed_folder_does_not_have_is_not_there() -> None:
    assert knowledge().condition("/photos/new.jpg") == Condition()


def test_a_file_with_a_strong_etag_may_be_replaced_as_long_as_it_is_that() -> None:
    assert knowledge().condition("/photos/1 a.jpg") == Condition('"one"')


def test_an_early_answer_is_not_given_where_it_might_not_be_true() -> None:
    known = knowledge()
    assert known.condition("/photos/weak.jpg") is None
    assert known.condition("/photos/sub") is None
    assert known.condition("/photos/sub/file") is None
    assert known.condition("/elsewhere/file") is None


def test_what_something_happened_to_is_not_known() -> None:
    known = knowledge()
    known.forget("/photos/1%20a.jpg")
    assert known.condition("/photos/1 a.jpg") is None
    assert known.condition("/photos/new.jpg") is None


def test_what_was_deleted_is_not_there_and_its_folder_is_known_as_before() -> None:
    known = knowledge()
    known.absent("/photos/1%20a.jpg")
    assert known.condition("/photos/1 a.jpg") == Condition()
    assert known.condition("/photos/new.jpg") == Condition()


def test_a_folder_that_is_gone_takes_what_is_below_along() -> None:
    known = knowledge()
    known.absent("/photos")
    assert known.condition("/photos/1 a.jpg") is None


def test_what_a_service_refused_is_doubted_alone() -> None:
    known = knowledge()
    known.doubt("/photos/new.jpg")
    assert known.condition("/photos/new.jpg") is None
    known.doubt("/photos/1%20a.jpg")
    assert known.condition("/photos/1 a.jpg") is None
    known.doubt("/photos")
    assert known.condition("/photos/other.jpg") == Condition()


def test_a_later_list_counts() -> None:
    known = knowledge()
    known.listed("/photos/", "1", [DavEntry("/photos", folder=True)])
    assert known.condition("/photos/1 a.jpg") == Condition()


def test_what_was_forgotten_for_want_of_room_is_not_taken_for_absent() -> None:
    made = Knowledge()
    files = [DavEntry(f"/d/{number}", etag='"x"') for number in range(25_000)]
    made.listed("/d/", "1", [*files, DavEntry("/d", folder=True)])
    assert made.condition("/d/0") is None
