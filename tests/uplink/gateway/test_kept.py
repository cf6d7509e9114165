# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files and lists that are kept, and what ends that."""

from pathlib import Path

from tests.needs import requires
from tests.uplink.gateway.site import Site, as_second_writer, site
from tests.uplink.gateway.test_holding import put
from tests.waiting import eventually

pytestmark = requires("rclone", "curl")

IMPATIENT = """
version = 1
listing = "webdav"
fresh = 0
[[request]]
kind = "read"
methods = ["GET"]
[[request]]
kind = "listing"
methods = ["PROPFIND"]
headers = { depth = "[01]" }
"""


def asked(cloud: Site) -> int:
    return len(cloud.server.requests("GET"))


def test_a_file_that_was_read_is_read_again_without_the_server(cloud: Site) -> None:
    content = bytes(range(256)) * 1000
    (cloud.server.files / "a").write_bytes(content)
    cloud.list_folder()
    assert cloud.curl(path="/a") == (200, content)
    before = asked(cloud)
    assert cloud.curl(path="/a") == (200, content)
    cloud.server.stop()
    assert cloud.curl(path="/a") == (200, content)
    assert asked(cloud) == before
    assert cloud.ask("stats")["hits"] == 2


def test_a_kept_file_outlives_the_daemon_and_is_not_for_others(cloud: Site) -> None:
    (cloud.server.files / "a").write_bytes(b"content")
    cloud.list_folder()
    assert cloud.curl(path="/a") == (200, b"content")
    assert eventually(lambda: any((cloud.folder / "cache").glob("*.json")))  # behind the answer
    cloud.stop()
    cloud.start()
    before = asked(cloud)
    assert cloud.curl(path="/a") == (200, b"content")
    assert asked(cloud) == before
    assert cloud.curl(path="/a", user="me:wrong")[0] == 401


def test_what_is_written_through_uplink_is_read_at_once(cloud: Site) -> None:
    (cloud.server.files / "a").write_bytes(b"before")
    cloud.list_folder()
    assert cloud.curl(path="/a") == (200, b"before")
    assert put(cloud, "a", b"mine", background=False) == 204
    assert cloud.curl(path="/a") == (200, b"mine")
    cloud.list_folder()
    assert put(cloud, "a", b"held, longer") == 204
    assert cloud.curl(path="/a") == (200, b"held, longer")
    cloud.flush()
    assert cloud.curl(path="/a") == (200, b"held, longer")


def test_what_was_changed_elsewhere_is_found_after_fresh_seconds(short_path: Path) -> None:
    folder = short_path / "descriptions"
    folder.mkdir()
    (folder / "webdav.toml").write_text(IMPATIENT)
    with site(short_path) as cloud:
        (cloud.server.files / "a").write_bytes(b"before")
        assert cloud.curl(path="/a") == (200, b"before")
        assert cloud.curl(path="/a") == (200, b"before")
        assert cloud.ask("stats")["confirmations"] == 1
        as_second_writer(cloud.server, "/a", b"changed elsewhere")
        assert cloud.curl(path="/a") == (200, b"changed elsewhere")


def test_a_kept_file_whose_bytes_have_changed_on_the_disk_is_not_given(cloud: Site) -> None:
    (cloud.server.files / "a").write_bytes(b"content")
    cloud.list_folder()
    assert cloud.curl(path="/a") == (200, b"content")
    cloud.stop()
    (body,) = (cloud.folder / "cache").glob("*.body")
    body.write_bytes(b"CONTENT")
    cloud.start()
    assert cloud.curl(path="/a") == (200, b"content")


def test_a_list_that_was_answered_is_answered_again_until_something_changes(cloud: Site) -> None:
    cloud.list_folder()
    before = len(cloud.server.requests("PROPFIND"))
    cloud.list_folder()
    assert len(cloud.server.requests("PROPFIND")) == before
    assert cloud.curl("-X", "MKCOL", path="/new/")[0] == 201
    assert b"/cloud/new" in cloud.list_folder()


def test_a_description_that_changes_counts_at_once(cloud: Site) -> None:
    folder = cloud.folder / "descriptions"
    folder.mkdir()
    (cloud.server.files / "a").write_bytes(b"content")
    cloud.list_folder()
    assert cloud.curl(path="/a") == (200, b"content")
    (folder / "webdav.toml").write_text(IMPATIENT)
    assert cloud.curl(path="/a") == (200, b"content")
    assert eventually(lambda: cloud.ask("stats")["confirmations"] == 1)
    (folder / "webdav.toml").write_text("nonsense")
    assert cloud.curl(path="/a") == (200, b"content")
    assert cloud.ask("stats")["confirmations"] == 2
