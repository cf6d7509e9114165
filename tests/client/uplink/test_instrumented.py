# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel uplink run --preload`: unmodified programs whose HTTP library asks uplink."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.uplink.named import SERVICE, NamedSite, named_site
from tests.client.uplink.site import PASSWORD, USER
from tests.needs import requires

pytestmark = requires("curl", "openssl", "unshare", "root")

CURL = ("curl", "-sS", "--fail-with-body", "-n")


@pytest.fixture
def cloud(short_path: Path) -> Iterator[NamedSite]:
    short_path.chmod(0o755)
    with named_site(short_path) as made:
        netrc = made.folder / ".netrc"
        netrc.write_text(f"machine {SERVICE} login {USER} password {PASSWORD}\n")
        netrc.chmod(0o600)
        yield made


def run(cloud: NamedSite, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*cloud.satchel, "run", "--background", "--preload", "--", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        input=typed,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"HOME": str(cloud.folder)},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_curl_with_libcurl(cloud: NamedSite) -> None:
    """With the password that it has for the service's own name, and https alone allowed."""
    url = cloud.server.url
    listed = run(cloud, *CURL, "-X", "PROPFIND", "-H", "Depth: 1", url + "/").stdout
    assert "href>/dav/" in listed
    source = cloud.folder / "source"
    source.write_bytes(b"content")
    run(cloud, *CURL, "--proto", "=https", "-T", str(source), url + "/a")
    assert cloud.states() == {"held": 1}
    assert run(cloud, *CURL, url + "/a").stdout == "content"
    cloud.flush()
    assert (cloud.server.files / "a").read_bytes() == b"content"


def test_one_handle_goes_from_a_service_to_a_stranger_and_back(cloud: NamedSite) -> None:
    (cloud.server.files / "a").write_bytes(b"content")
    own = ("-u", f"{USER}:{PASSWORD}")
    urls = [cloud.server.url + "/a", cloud.elsewhere + "/a", cloud.server.url + "/a"]
    assert run(cloud, *CURL, *own, *urls).stdout == "content" * 3
    assert cloud.ask("stats")["requests"] == 2


@requires("cadaver")
def test_cadaver_with_libneon(cloud: NamedSite) -> None:
    (cloud.folder / "report").write_bytes(b"mine" * 5000)
    commands = ["ls", "mkcol letters", "cd letters", f"put {cloud.folder}/report", "ls"]
    commands += [f"get report {cloud.folder}/again", "copy report other", "move other third", "ls"]
    said = run(cloud, "cadaver", cloud.server.url + "/", typed="\n".join([*commands, "quit\n"]))
    assert "failed" not in said.stdout + said.stderr
    assert (cloud.folder / "again").read_bytes() == b"mine" * 5000
    folder = cloud.server.files / "letters"
    assert sorted(path.name for path in folder.iterdir()) == ["report", "third"]
    assert cloud.ask("stats")["requests"] > 5


def test_git_with_libcurl(cloud: NamedSite) -> None:
    made, work = cloud.server.files / "repository.git", cloud.folder / "work"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(work)]
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(made)], check=True)
    subprocess.run(["git", "-C", str(made), "update-server-info"], check=True)
    target = str(cloud.folder / "clone")
    run(cloud, "git", "clone", "-q", f"{cloud.server.url}/repository.git", target)
    log = subprocess.run(
        ["git", "-C", target, "log", "--format=%s"], check=True, capture_output=True
    )
    assert log.stdout == b"first\n"
    assert cloud.ask("stats")["requests"] > 2


def test_a_page_of_a_browser_cannot_ask_as_a_proxy_does(cloud: NamedSite) -> None:
    """A request for a path, which is all that a page gets a browser to send here."""
    url = f"http://127.0.0.1:{cloud.port}/dav/"
    words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H", f"Host: {SERVICE}", url]
    assert subprocess.run(words, check=True, capture_output=True).stdout == b"403"
    tunnel = ["curl", "-s", "-x", f"http://127.0.0.1:{cloud.port}", "https://other.test/"]
    assert subprocess.run(tunnel, check=False, capture_output=True).returncode == 56
