# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The notebook service, on the host: pages, API, limits, and that it repeats itself exactly."""

from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.images.guest_code import service_module

TIME = 1_700_000_000_000_000_000
HEADERS = {"X-Satchel-Time": str(TIME), "X-Satchel-Seed": "7"}


def client(database: Path) -> FlaskClient:
    app = service_module("notes").create_app(database)
    made: FlaskClient = app.test_client()
    return made


@pytest.fixture
def notes(tmp_path: Path) -> FlaskClient:
    return client(tmp_path / "notes.db")


def add(notes: FlaskClient, title: str, text: str = "", **headers: str) -> dict[str, Any]:
    given = {**HEADERS, **headers}
    response = notes.post("/api/notes", json={"title": title, "text": text}, headers=given)
    assert response.status_code == 201, response.text
    value: dict[str, Any] = response.json or {}
    return value


def test_a_note_has_its_time_and_its_name_from_the_operation(notes: FlaskClient) -> None:
    note = add(notes, "Milk", "two litres")
    assert note == {
        "id": 1,
        "name": "f2a74de452e6b438",
        "title": "Milk",
        "text": "two litres",
        "created": TIME,
        "modified": TIME,
    }


def test_edit_get_list_delete(notes: FlaskClient) -> None:
    for title in ("one", "two", "three"):
        add(notes, title)
    later = {**HEADERS, "X-Satchel-Time": str(TIME + 5)}
    edited = notes.put("/api/notes/1", json={"title": "uno", "text": "x"}, headers=later).json
    assert edited is not None
    assert (edited["created"], edited["modified"]) == (TIME, TIME + 5)
    assert notes.get("/api/notes/1").json == edited
    assert notes.delete("/api/notes/2").status_code == 204
    listed = notes.get("/api/notes").json
    assert listed is not None
    assert [note["title"] for note in listed["notes"]] == ["uno", "three"]
    exported = notes.get("/export").json
    assert exported is not None
    assert [note["id"] for note in exported["notes"]] == [1, 3]
    assert add(notes, "four")["id"] == 4


def test_search_wants_every_word_and_takes_no_wildcards(notes: FlaskClient) -> None:
    add(notes, "Shopping", "milk and bread")
    add(notes, "Bread recipe", "flour, 100% whole")
    add(notes, "Other", "a_b")

    def found(words: str) -> list[int]:
        value = notes.get("/api/notes", query_string={"q": words}).json
        assert value is not None
        return sorted(note["id"] for note in value["notes"])

    assert found("bread") == [1, 2]
    assert found("BREAD milk") == [1]
    assert found("%") == [2]
    assert found("_") == [3]
    assert found("\\") == []
    assert found("'; DROP TABLE notes; --") == []


def test_a_browser_can_do_everything(notes: FlaskClient) -> None:
    form = {"title": "<b>bold</b>", "text": "line 1\r\nline 2"}
    added = notes.post("/notes", data=form, headers=HEADERS)
    assert (added.status_code, added.location) == (303, "/")
    page = notes.get("/").text
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>bold" not in page
    assert "2023-11-14 22:13 UTC" in page
    assert "line 1\nline 2</textarea>" in notes.get("/notes/1").text
    assert notes.post("/notes/1", data={"title": "plain", "text": ""}).status_code == 303
    assert "plain" in notes.get("/?q=plain").text
    assert notes.post("/notes/1/delete").status_code == 303
    assert "0 notes" in notes.get("/").text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"title": 7}',
        b'{"title": ""}',
        b'{"title": "  "}',
        b'{"title": "' + b"a" * 201 + b'"}',
        b'{"title": "a", "text": "' + b"a" * 65537 + b'"}',
        b'{"title": "a", "text": null}',
        b'{"title": "\\ud800"}',
        b'{"title": "\xff"}',
    ],
)
def test_rubbish_is_a_400_and_changes_nothing(notes: FlaskClient, body: bytes) -> None:
    assert notes.post("/api/notes", data=body).status_code == 400
    assert notes.get("/export").json == {"version": 1, "notes": []}


@pytest.mark.parametrize("value", ["", "x", "-1", "1.5", "9" * 30, str(1 << 64), "\u0667"])
def test_a_header_that_is_no_number_is_a_400(notes: FlaskClient, value: str) -> None:
    for name in HEADERS:
        headers = {**HEADERS, name: value.encode().decode("latin-1")}
        assert notes.post("/api/notes", json={"title": "a"}, headers=headers).status_code == 400


def test_limits(notes: FlaskClient) -> None:
    assert notes.post("/api/notes", data=b" " * 300_000).status_code == 413
    assert notes.get("/api/notes", query_string={"q": "a" * 201}).status_code == 400
    assert notes.get("/api/notes/99").status_code == 404
    assert notes.put(f"/api/notes/{1 << 80}", json={"title": "a"}).status_code == 404
    assert "there is no note" in notes.get("/notes/99").text
    far = add(notes, "far", **{"X-Satchel-Time": str((1 << 64) - 1)})
    assert far["created"] == (1 << 63) - 1
    assert notes.get("/").status_code == 200


def test_a_page_of_another_site_cannot_write(notes: FlaskClient) -> None:
    headers = {**HEADERS, "Sec-Fetch-Site": "cross-site"}
    assert notes.post("/notes", data={"title": "a"}, headers=headers).status_code == 403
    assert notes.get("/", headers=headers).status_code == 200


def test_notes_outlive_the_process(tmp_path: Path) -> None:
    add(client(tmp_path / "db"), "kept")
    exported = client(tmp_path / "db").get("/export").json
    assert exported is not None
    assert exported["notes"][0]["title"] == "kept"


def test_without_the_headers_clock_and_kernel_are_used(notes: FlaskClient) -> None:
    made = [notes.post("/api/notes", json={"title": "a"}).json for _ in range(2)]
    assert made[0] is not None
    assert made[1] is not None
    assert made[0]["name"] != made[1]["name"]
    assert made[0]["created"] > TIME


def test_two_replicas_give_the_same_bytes_and_have_the_same_file(tmp_path: Path) -> None:
    answers: list[list[tuple[int, list[tuple[str, str]], bytes]]] = []
    for name in ("a", "b"):
        app = service_module("notes").create_app(tmp_path / name)
        service_module("notes").warm(app)
        notes = app.test_client()
        transcript = []
        for n in range(120):
            headers = {"X-Satchel-Time": str(TIME + n * 10**9), "X-Satchel-Seed": str(n * n)}
            number = n // 4 + 1
            path, method, body = [
                ("/api/notes", "POST", {"title": f"note {n}", "text": "x" * (n * 97 % 9000)}),
                (f"/api/notes/{number}", "PUT", {"title": f"edited {n}", "text": "y" * n}),
                (f"/?q={n % 10}", "GET", None),
                (f"/api/notes/{number // 2 + 1}", "DELETE", None),
            ][n % 4]
            response = notes.open(path, method=method, json=body, headers=headers)
            transcript.append((response.status_code, list(response.headers), response.data))
        answers.append(transcript)
    assert answers[0] == answers[1]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a-journal").read_bytes() == (tmp_path / "b-journal").read_bytes()
