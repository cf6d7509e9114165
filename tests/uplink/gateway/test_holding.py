# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Uploads of unmodified programs that are held: what the programs see, and what the server gets."""

import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.needs import requires
from tests.uplink.gateway.site import Site, as_second_writer, site
from tests.waiting import eventually

pytestmark = requires("rclone", "curl")


def put(cloud: Site, name: str, content: bytes, *words: str, background: bool = True) -> int:
    source = cloud.folder / "source"
    source.write_bytes(content)
    return cloud.curl("-T", str(source), *words, path=f"/{name}", background=background)[0]


def test_rclone_takes_held_files_for_done_and_finds_them(cloud: Site) -> None:
    source = cloud.folder / "photos"
    source.mkdir()
    for number in range(5):
        (source / f"photo {number} & ü.jpg").write_bytes(bytes([number]) * 30_000)
    cloud.run("rclone", "copy", str(source), "up:")
    assert list(cloud.server.files.iterdir()) == []
    listed = cloud.run("rclone", "lsf", "up:").stdout.splitlines()
    assert sorted(listed) == sorted(path.name for path in source.iterdir())
    cloud.run("rclone", "check", "--download", str(source), "up:")
    assert cloud.states() == {"held": 5}
    cloud.flush()
    assert cloud.states() == {"confirmed": 5}
    for path in source.iterdir():
        assert (cloud.server.files / path.name).read_bytes() == path.read_bytes()
    cloud.run("rclone", "check", "--download", str(source), "up:")


def test_an_upload_that_a_person_waits_for_goes_at_once(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "mine", b"now", background=False) == 201
    assert (cloud.server.files / "mine").read_bytes() == b"now"


def test_what_is_in_a_folder_that_nobody_listed_is_the_services_to_say(cloud: Site) -> None:
    assert put(cloud, "nowhere/file", b"x") == 409
    assert cloud.states() == {}


def test_a_newer_upload_of_the_same_path_takes_the_place_of_a_held_one(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "notes", b"first") == 201
    assert put(cloud, "notes", b"second") == 204
    assert cloud.curl(path="/notes") == (200, b"second")
    assert cloud.states() == {"held": 1}
    cloud.flush()
    assert (cloud.server.files / "notes").read_bytes() == b"second"
    assert len(cloud.server.requests("PUT")) == 1


def test_a_file_that_another_device_changed_meanwhile_stays_beside_a_conflict_copy(
    cloud: Site,
) -> None:
    (cloud.server.files / "notes.txt").write_bytes(b"before")
    cloud.list_folder()
    assert put(cloud, "notes.txt", b"written here") == 204
    as_second_writer(cloud.server, "/notes.txt", b"written elsewhere")
    cloud.flush()
    assert cloud.states() == {"conflict": 1}
    assert (cloud.server.files / "notes.txt").read_bytes() == b"written elsewhere"
    (copy,) = [path for path in cloud.server.files.iterdir() if "conflict" in path.name]
    assert copy.read_bytes() == b"written here"
    assert copy.suffix == ".txt"
    (told,) = cloud.ask("status")["uploads"]
    assert unquote(told["copy"]) == f"/{copy.name}"


def test_a_file_that_another_device_made_meanwhile_is_not_overwritten(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "new", b"ours") == 201
    as_second_writer(cloud.server, "/new", b"theirs")
    cloud.flush()
    assert (cloud.server.files / "new").read_bytes() == b"theirs"
    assert cloud.states() == {"conflict": 1}


def test_a_condition_of_the_programs_own_is_kept(cloud: Site) -> None:
    (cloud.server.files / "there").write_bytes(b"before")
    cloud.list_folder()
    assert put(cloud, "there", b"x", "-H", "If-None-Match: *") == 412
    assert put(cloud, "there", b"x", "-H", 'If-Match: "another"') == 412
    assert (cloud.server.files / "there").read_bytes() == b"before"
    assert put(cloud, "new", b"x", "-H", "If-None-Match: *") == 201
    assert cloud.states() == {"held": 1}


def test_what_comes_after_an_upload_finds_it_done(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "a", b"content") == 201
    destination = f"Destination: {cloud.url}/b"
    assert cloud.curl("-X", "MOVE", "-H", destination, path="/a")[0] == 201
    assert [path.name for path in cloud.server.files.iterdir()] == ["b"]
    cloud.list_folder()
    assert put(cloud, "c", b"content") == 201
    assert cloud.curl("-X", "DELETE", path="/c")[0] == 204
    assert [path.name for path in cloud.server.files.iterdir()] == ["b"]
    assert cloud.curl(path="/c")[0] == 404


def test_nothing_is_lost_while_the_server_is_away(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "a", b"content") == 201
    cloud.server.stop()
    assert cloud.flush()["held"] == 1
    assert put(cloud, "b", b"more") == 201
    assert cloud.curl(path="/b") == (200, b"more")
    cloud.server.start()
    cloud.flush()
    assert cloud.states() == {"confirmed": 2}
    assert (cloud.server.files / "b").read_bytes() == b"more"


def test_what_is_held_outlives_the_daemon(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "a", b"content") == 201
    cloud.stop()
    cloud.start()
    cloud.flush()
    assert cloud.states() == {"confirmed": 1}
    assert (cloud.server.files / "a").read_bytes() == b"content"


def test_what_the_service_refuses_is_told_and_kept(cloud: Site) -> None:
    folder = cloud.server.files / "folder"
    folder.mkdir()
    cloud.list_folder("/folder/")
    assert put(cloud, "folder/file", b"content") == 201
    folder.rmdir()
    cloud.flush()
    assert cloud.states() == {"failed": 1}
    folder.mkdir()
    cloud.flush(failed=True)
    assert cloud.states() == {"confirmed": 1}
    assert (folder / "file").read_bytes() == b"content"


def test_nobody_with_another_password_reads_what_is_held(cloud: Site) -> None:
    cloud.list_folder()
    assert put(cloud, "secret", b"content") == 201
    assert cloud.curl(path="/secret", user="me:wrong")[0] == 401
    status, listed = cloud.curl("-X", "PROPFIND", "-H", "Depth: 1", user="me:wrong")
    assert status == 401
    assert b"secret" not in listed
    assert cloud.curl(path="/secret") == (200, b"content")


def test_a_page_in_a_browser_is_not_answered(cloud: Site) -> None:
    assert cloud.curl("-H", "Host: attacker.example")[0] == 403


def test_uploads_that_find_no_room_go_at_once(short_path: Path) -> None:
    with site(short_path, settings="spool-mib = 1") as cloud:
        cloud.hold()
        cloud.list_folder()
        assert put(cloud, "small", b"x" * 700_000) == 201
        assert put(cloud, "large", b"y" * 700_000) == 201
        assert (cloud.server.files / "large").stat().st_size == 700_000


def test_an_upload_that_waited_for_long_enough_goes(short_path: Path) -> None:
    with site(short_path, settings="deadline-minutes = 0.03") as cloud:
        cloud.list_folder()
        time.sleep(0.1)  # until the radio of the tests sleeps
        assert put(cloud, "a", b"content") == 201
        assert eventually(lambda: cloud.states() == {"confirmed": 1})
        assert cloud.ask("stats")["flushes"] == {"deadline": 1}


def test_a_batch_that_is_large_enough_goes(short_path: Path) -> None:
    """C1 of the paper: at 6 Mb/s and the cost of 4G's tail that is at 8 MB."""
    with site(short_path) as cloud:
        cloud.list_folder()
        time.sleep(0.1)
        for number in range(3):
            assert put(cloud, f"{number}", bytes([number]) * 2_900_000) == 201
            if number < 2:
                assert cloud.states() == {"held": number + 1}
        assert eventually(lambda: cloud.states() == {"confirmed": 3})
        assert cloud.ask("stats")["flushes"] == {"enough": 1}


def test_uploads_go_along_when_the_interface_is_awake_anyway(short_path: Path) -> None:
    with site(short_path) as cloud:
        cloud.list_folder()
        time.sleep(0.1)
        assert put(cloud, "a", b"content") == 201
        assert cloud.states() == {"held": 1}
        assert put(cloud, "mine", b"now", background=False) == 201
        assert eventually(lambda: cloud.states() == {"confirmed": 1})


@pytest.mark.parametrize("rule", ["background", "foreground"])
def test_a_rule_of_the_settings_goes_before_everything_else(short_path: Path, rule: str) -> None:
    with site(short_path, settings=f'{rule} = ["curl"]') as cloud:
        cloud.list_folder()
        cloud.hold()
        put(cloud, "a", b"content", background=rule == "foreground")
        assert cloud.states() == ({"held": 1} if rule == "background" else {})
