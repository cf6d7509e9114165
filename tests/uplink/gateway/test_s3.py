# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""S3 by unmodified programs, at moto's server, which looks at each signature."""

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.needs import requires
from tests.repository.tree import ROOT
from tests.uplink.gateway.buckets import REGION, bucket_site, server_of
from tests.uplink.gateway.named import NamedSite
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    requires("moto", "rclone", "nft", "ip", "unshare", "openssl", "root", "netns"),
]


class Refused(Exception):
    """A program failed, with what it said."""


def rclone(cloud: NamedSite, *words: str, key: str = "", uplink: bool = True) -> str:
    """What it prints; in the background, in a namespace of uplink's or without uplink."""
    server = server_of(cloud)
    settings = {
        "TYPE": "s3",
        "PROVIDER": "Other",
        "ACCESS_KEY_ID": server.key,
        "SECRET_ACCESS_KEY": key or server.secret,
        "ENDPOINT": server.url,
        "REGION": REGION,
        "LIST_VERSION": "2",
    }
    environment = {f"RCLONE_CONFIG_UP_{name}": value for name, value in settings.items()}
    environment |= {"RCLONE_CONFIG": str(cloud.folder / "rclone.conf"), "HOME": str(cloud.folder)}
    own = {k: v for k, v in os.environ.items() if k != "AWS_CA_BUNDLE"} | environment
    before = [*cloud.satchel, "run", "--background", "--namespace", "--"] if uplink else cloud.there
    done = subprocess.run(
        [*before, "rclone", "--retries", "1", "--low-level-retries", "1", *words],
        check=False, capture_output=True, text=True, timeout=120, cwd=ROOT, env=own,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise Refused(f"{words}: {done.stderr}")
    return done.stdout


def plant(cloud: NamedSite) -> list[str]:
    """A bucket with three folders with two folders each; what rclone lists."""
    source = cloud.folder / "source"
    names = []
    for outer in ("a b", "c+ü", "d&e"):
        names.append(f"{outer}/")
        for inner in "xy":
            (source / outer / inner).mkdir(parents=True)
            (source / outer / inner / "file %").write_bytes(os.urandom(3000))
            names += [f"{outer}/{inner}/", f"{outer}/{inner}/file %"]
    rclone(cloud, "mkdir", "up:bucket", uplink=False)
    assert rclone(cloud, "lsf", "up:bucket", uplink=False) == ""
    rclone(cloud, "copy", str(source), "up:bucket")
    return sorted(names)


def test_signatures_come_through_as_they_are(short_path: Path) -> None:
    with bucket_site(short_path) as cloud:
        names = plant(cloud)
        source = str(cloud.folder / "source")
        rclone(cloud, "check", "--download", source, "up:bucket")
        assert sorted(rclone(cloud, "lsf", "-R", "up:bucket").splitlines()) == names
        assert sorted(rclone(cloud, "lsf", "-R", "up:bucket", uplink=False).splitlines()) == names
        rclone(cloud, "moveto", "up:bucket/a b/x/file %", "up:bucket/moved")
        rclone(cloud, "purge", "up:bucket/c+ü")
        left = [name for name in names if not name.startswith("c+") and name != "a b/x/file %"]
        left = sorted([*left, "moved"])
        left.remove("a b/x/")
        assert sorted(rclone(cloud, "lsf", "-R", "up:bucket", uplink=False).splitlines()) == left
        assert cloud.ask("stats")["requests"] > 20
        with pytest.raises(Refused) as refused:
            rclone(cloud, "lsf", "up:bucket", key="wrong")
        assert "403" in str(refused.value)


def test_a_file_that_was_read_comes_without_its_bytes(short_path: Path) -> None:
    """The service looks at each signature, and says that the file is as it was."""
    with bucket_site(short_path) as cloud:
        content = os.urandom(2_000_000)
        (cloud.folder / "large").write_bytes(content)
        rclone(cloud, "mkdir", "up:bucket")
        rclone(cloud, "copy", str(cloud.folder / "large"), "up:bucket")
        for place in ("first", "second"):
            rclone(cloud, "copy", "up:bucket/large", str(cloud.folder / place))
            assert (cloud.folder / place / "large").read_bytes() == content
        stats = cloud.ask("stats")
        assert stats["confirmations"] == 1
        assert stats["bytes_down"] < 2_100_000
        with pytest.raises(Refused):
            rclone(cloud, "copy", "up:bucket/large", str(cloud.folder / "third"), key="wrong")
        (cloud.folder / "large").write_bytes(content[::-1])
        rclone(cloud, "copy", str(cloud.folder / "large"), "up:bucket", uplink=False)
        rclone(cloud, "copy", "up:bucket/large", str(cloud.folder / "fourth"))
        assert (cloud.folder / "fourth" / "large").read_bytes() == content[::-1]


def test_a_crawl_costs_one_list(short_path: Path) -> None:
    with bucket_site(short_path, secret=True) as cloud:
        names = plant(cloud)
        before = lists(cloud)
        words = ("lsf", "-R", "--disable", "ListR", "--checkers", "1", "up:bucket")
        assert sorted(rclone(cloud, *words).splitlines()) == names
        assert cloud.ask("stats")["trees"] == 1
        assert lists(cloud) - before < 10  # folders that there are
        before = lists(cloud)
        assert sorted(rclone(cloud, *words).splitlines()) == names
        assert lists(cloud) == before  # all of it was told less than 30 s ago
        new = cloud.folder / "new"
        new.write_bytes(b"new")
        rclone(cloud, "copy", str(new), "up:bucket/a b")
        assert sorted(rclone(cloud, *words).splitlines()) == sorted([*names, "a b/new"])
        with pytest.raises(Refused):
            rclone(cloud, *words, key="wrong")


def lists(cloud: NamedSite) -> int:
    return sum("list-type=2" in line for line in cloud.server.log.read_text().splitlines())


def test_uploads_wait_for_each_other_with_their_programs(short_path: Path) -> None:
    """None has an answer before the service has it; they go in one burst."""
    with bucket_site(short_path, waits=600) as cloud:  # three programs start on a busy host
        rclone(cloud, "mkdir", "up:bucket", uplink=False)
        sources, programs = [], []
        for number in range(3):
            sources.append(cloud.folder / f"file{number}")
            sources[-1].write_bytes(os.urandom(10_000))
        for source in sources:
            words = (
                "copyto",
                "--s3-no-head",
                "--s3-no-check-bucket",  # to make one is an upload as well
                "--no-check-dest",  # to ask wakes the radio, and all go with that
                str(source),
                f"up:bucket/{source.name}",
            )
            programs.append(threading.Thread(target=rclone, args=(cloud, *words)))
        for program in programs:
            program.start()
        assert eventually(lambda: cloud.ask("stats")["waited"] == 3)
        time.sleep(0.5)
        assert rclone(cloud, "lsf", "up:bucket", uplink=False) == ""
        assert all(program.is_alive() for program in programs)
        cloud.flush()
        for program in programs:
            program.join()
        listed = rclone(cloud, "lsf", "up:bucket", uplink=False).splitlines()
        assert sorted(listed) == [source.name for source in sources]
        assert cloud.states() == {}
