# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that ask for every folder of a tree."""

from tests.needs import requires
from tests.uplink.gateway.site import Site
from tests.uplink.gateway.test_holding import put

pytestmark = requires("rclone", "curl")

RCLONE = ("rclone", "lsf", "-R", "--checkers", "1", "up:")


def plant(cloud: Site) -> list[str]:
    """Three folders with three folders each; what rclone lists."""
    names = []
    for outer in "abc":
        names.append(f"{outer} &/")
        for inner in "xyz":
            folder = cloud.server.files / f"{outer} &" / inner
            folder.mkdir(parents=True)
            (folder / "file ü").write_bytes(b"content")
            names += [f"{outer} &/{inner}/", f"{outer} &/{inner}/file ü"]
    return sorted(names)


def test_a_crawl_costs_few_requests_and_sees_what_is_there(cloud: Site) -> None:
    names = plant(cloud)
    before = len(cloud.server.requests("PROPFIND"))
    assert sorted(cloud.run(*RCLONE).stdout.splitlines()) == names
    asked = len(cloud.server.requests("PROPFIND")) - before
    assert cloud.ask("stats")["trees"] == 1
    assert asked < 13  # folders that there are


def test_a_crawl_sees_what_is_held_and_what_was_changed(cloud: Site) -> None:
    names = plant(cloud)
    cloud.run(*RCLONE)
    assert put(cloud, "a%20&/x/held", b"content") == 201
    assert sorted(cloud.run(*RCLONE).stdout.splitlines()) == sorted([*names, "a &/x/held"])
    cloud.flush()
    assert cloud.curl("-X", "DELETE", path="/a%20&/x/file%20%C3%BC", background=False)[0] == 204
    names.remove("a &/x/file ü")
    assert sorted(cloud.run(*RCLONE).stdout.splitlines()) == sorted([*names, "a &/x/held"])
