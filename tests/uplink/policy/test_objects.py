# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
import xml.etree.ElementTree as Tree
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uplink.policy import BadObjectList, folder_lists, read_folder_question, read_objects

SPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
ASKED = "/bucket?delimiter=%2F&encoding-type=url&list-type=2&max-keys=1000&prefix="


def page(keys: list[str], token: str = "") -> bytes:
    """As the service says it, without a delimiter."""
    told = "".join(
        f"<Contents><Key>{quote(key)}</Key><Size>{len(key)}</Size></Contents>" for key in keys
    )
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (
        f'<?xml version="1.0"?><ListBucketResult xmlns="{SPACE[1:-1]}"><Name>bucket</Name>{told}'
        f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>{more}</ListBucketResult>"
    ).encode()


def entries(body: bytes) -> tuple[list[str], list[str]]:
    """Keys and folders of a list."""
    root = Tree.fromstring(body)
    keys = [unquote(each.findtext(f"{SPACE}Key") or "") for each in root.iter(f"{SPACE}Contents")]
    folders = root.findall(f"{SPACE}CommonPrefixes/{SPACE}Prefix")
    assert root.findtext(f"{SPACE}KeyCount") == str(len(keys) + len(folders))
    return keys, [unquote(each.text or "") for each in folders]


def by_the_rule(keys: set[str], prefix: str) -> tuple[list[str], list[str]]:
    """As the reference of ListObjectsV2 says it."""
    mine = [key for key in keys if key.startswith(prefix)]
    rests = {key: key[len(prefix) :] for key in mine}
    own = sorted(key for key, rest in rests.items() if "/" not in rest)
    folders = {prefix + rest.partition("/")[0] + "/" for rest in rests.values() if "/" in rest}
    return own, sorted(folders)


@given(keys=st.sets(st.text("ab/ ü&+<", min_size=1, max_size=9), max_size=12))
def test_each_folders_list_is_what_the_service_would_say(keys: set[str]) -> None:
    question = read_folder_question(ASKED)
    assert question is not None
    told = read_objects(page(sorted(keys)), encoded=True)
    assert [key for key, _ in told.objects] == sorted(keys)
    lists = folder_lists(question, told.name, told.objects)
    prefixes = {key[: at + 1] for key in keys for at, sign in enumerate(key) if sign == "/"}
    assert lists.keys() == prefixes | {""}
    for prefix, body in lists.items():
        assert entries(body) == by_the_rule(keys, prefix)


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("list-type=2&delimiter=/&prefix=", True),
        ("list-type=2&delimiter=%2F&prefix=a%2Fb%2F&fetch-owner=false", True),
        ("list-type=2&prefix=", False),
        ("delimiter=/&prefix=", False),
        ("list-type=2&delimiter=/&prefix=half", False),
        ("list-type=2&delimiter=/&prefix=&continuation-token=x", False),
        ("list-type=2&delimiter=/&prefix=&start-after=a", False),
        ("list-type=2&delimiter=/&prefix=&prefix=b/", False),
        ("list-type=2&delimiter=/&max-keys=x", False),
    ],
)
def test_which_questions_are_about_one_folder(query: str, asks: bool) -> None:
    assert (read_folder_question(f"/bucket?{query}") is not None) is asks


def test_a_folder_with_more_than_a_page_is_left_to_the_service() -> None:
    question = read_folder_question(ASKED.replace("1000", "2"))
    assert question is not None
    told = read_objects(page(["a/1", "a/2", "a/3", "b/1"]), encoded=True)
    assert folder_lists(question, "bucket", told.objects).keys() == {"", "b/"}


def test_pages_go_on_where_they_are_cut() -> None:
    assert read_objects(page(["a"], "more"), encoded=True).token == "more"
    question = read_folder_question(ASKED)
    assert question is not None
    assert question.tree("m/+") == (
        "continuation-token=m%2F%2B&encoding-type=url&list-type=2&max-keys=1000&prefix="
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html/>",
        b"<!DOCTYPE x><ListBucketResult/>",
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    ],
)
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(BadObjectList):
        read_objects(body, encoded=True)


@given(body=st.binary(max_size=300))
def test_no_bytes_of_a_stranger_do_more_than_that(body: bytes) -> None:
    with pytest.raises(BadObjectList):
        read_objects(body, encoded=False)


def test_the_same_question_of_another_folder_of_the_bucket() -> None:
    question = read_folder_question(ASKED)
    assert question is not None
    assert question.of(question.folder) == question
    assert question.of(question.bucket).prefix == ""
    assert question.of(f"{question.bucket}/a b/c").prefix == "a b/c/"
