# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel uplink run --namespace`: unmodified programs with the service's own https address."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import requires
from tests.uplink.gateway.named import NamedSite, named_site
from tests.uplink.gateway.site import OBSCURED, PASSWORD, USER
from tests.waiting import eventually

pytestmark = requires("curl", "openssl", "nft", "ip", "unshare", "root", "netns")

CREDENTIALS = ("-u", f"{USER}:{PASSWORD}")
CURL = ("curl", "-sS", "--fail-with-body", *CREDENTIALS)


@pytest.fixture
def cloud(short_path: Path) -> Iterator[NamedSite]:
    short_path.chmod(0o755)
    with named_site(short_path) as made:
        yield made


def run(
    cloud: NamedSite, *words: str, check: bool = True, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """In the background, in a namespace. before: a command that runs satchel."""
    satchel = [*cloud.there, *before, *cloud.satchel[len(cloud.there) :]]
    done = subprocess.run(
        [*satchel, "run", "--background", "--namespace", "--", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        cwd=Path(__file__).parents[3],
        env=os.environ | {"HOME": str(cloud.folder)},
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def learn(cloud: NamedSite) -> None:
    """So that uplink knows what is in the service's folder."""
    said = run(cloud, *CURL, "-X", "PROPFIND", "-H", "Depth: 1", cloud.server.url + "/").stdout
    assert "<ns0:href>/dav/" in said or "href>/dav/" in said, said


def test_an_upload_of_curl_is_held_at_the_services_own_address(cloud: NamedSite) -> None:
    learn(cloud)
    source = cloud.folder / "source"
    source.write_bytes(b"content" * 1000)
    run(cloud, *CURL, "-T", str(source), cloud.server.url + "/report")
    assert cloud.states() == {"held": 1}
    assert not (cloud.server.files / "report").exists()
    listed = run(cloud, *CURL, "-X", "PROPFIND", "-H", "Depth: 1", cloud.server.url + "/").stdout
    assert "/dav/report" in listed
    assert run(cloud, *CURL, cloud.server.url + "/report").stdout == "content" * 1000
    cloud.flush()
    assert (cloud.server.files / "report").read_bytes() == b"content" * 1000


@requires("rclone")
def test_rclone(cloud: NamedSite) -> None:
    source = cloud.folder / "photos"
    source.mkdir()
    for number in range(5):
        (source / f"photo {number}").write_bytes(os.urandom(10_000))
    config = cloud.folder / "rclone.conf"
    config.write_text(
        f"[up]\ntype = webdav\nurl = {cloud.server.url}\nuser = {USER}\npass = {OBSCURED}\n"
    )
    rclone = ("rclone", "--config", str(config))
    run(cloud, *rclone, "copy", str(source), "up:")
    assert cloud.states().get("held", 0) > 0
    run(cloud, *rclone, "check", "--download", str(source), "up:")
    cloud.flush()
    assert {path.name for path in cloud.server.files.iterdir()} == {
        path.name for path in source.iterdir()
    }


def test_requests_of_python(cloud: NamedSite) -> None:
    (cloud.server.files / "a").write_bytes(b"content")
    script = "import requests, sys\n"
    script += f"print(requests.get(sys.argv[1], auth=('{USER}', '{PASSWORD}')).text)"
    if subprocess.run(["/usr/bin/python3", "-c", "import requests"], check=False).returncode:
        pytest.skip("Debian's package python3-requests is missing")
    said = run(cloud, "/usr/bin/python3", "-c", script, cloud.server.url + "/a").stdout
    assert said == "content\n"
    assert cloud.ask("stats")["requests"] == 1


def test_other_hosts_are_tunnelled_with_their_own_certificate(cloud: NamedSite) -> None:
    content = os.urandom(300_000)
    (cloud.server.files / "a").write_bytes(content)
    place = cloud.folder / "got"
    before = cloud.ask("stats")
    said = run(cloud, *CURL, "-v", "-o", str(place), cloud.elsewhere + "/a").stderr
    assert "issuer: CN=the test's authority" in said
    assert place.read_bytes() == content
    after = cloud.ask("stats")
    assert after["requests"] == 0
    assert after["bytes_down"] - before["bytes_down"] > len(content)
    run(cloud, *CURL, "-T", str(place), cloud.elsewhere + "/b")
    assert (cloud.server.files / "b").read_bytes() == content
    assert cloud.ask("stats")["bytes_up"] - after["bytes_up"] > len(content)


def test_git_goes_through_the_tunnel(cloud: NamedSite) -> None:
    made = cloud.server.files / "repository.git"
    work = cloud.folder / "work"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(work)]
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(made)], check=True)
    subprocess.run(["git", "-C", str(made), "update-server-info"], check=True)
    asked = 0
    for number, place in enumerate((cloud.server.url, cloud.elsewhere)):
        url = place.replace("https://", f"https://{USER}:{PASSWORD}@")
        target = str(cloud.folder / f"clone{number}")
        run(cloud, "git", "clone", "-q", f"{url}/repository.git", target)
        log = subprocess.run(
            ["git", "-C", target, "log", "--format=%s"], check=True, capture_output=True
        )
        assert log.stdout == b"first\n"
        requests = cloud.ask("stats")["requests"]
        assert requests > 0 if number == 0 else requests == asked
        asked = requests


def test_a_program_that_pins_its_services_key_goes_on(cloud: NamedSite) -> None:
    """curl's key is the service's: it refuses the first connection, and gets the second one."""
    (cloud.server.files / "a").write_bytes(b"content")
    der = subprocess.run(
        f"openssl x509 -in {cloud.server.folder}/server.pem -noout -pubkey"
        " | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64",
        shell=True, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    url = cloud.server.url + "/a"
    pinned = (*CURL, "--pinnedpubkey", f"sha256//{der}")
    said = run(cloud, *pinned, "--retry", "3", "--retry-all-errors", "--retry-delay", "1", url)
    assert said.stdout.endswith("content")
    nothing = cloud.folder / "nothing"
    nothing.mkdir()
    own = (*CURL, "--cacert", str(cloud.system / "ca-certificates.crt"), "--capath", str(nothing))
    said = run(cloud, *own, "--retry", "3", "--retry-all-errors", "--retry-delay", "1", url)
    assert said.stdout.endswith("content")
    assert cloud.ask("stats")["requests"] == 0


def test_the_systems_store_is_untouched_and_the_runs_own_is_constrained(cloud: NamedSite) -> None:
    before = _digests(cloud.system)
    kept = cloud.folder / "kept"
    run(cloud, "cp", "-r", "/etc/ssl/certs", str(kept))
    assert _digests(cloud.system) == before
    assert before.items() <= {**_digests(kept), **before}.items()
    added = {path.name for path in kept.iterdir()} - {path.name for path in cloud.system.iterdir()}
    (name,) = added
    words = ["openssl", "x509", "-in", str(kept / name), "-noout", "-ext", "nameConstraints"]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert "Permitted:\n      DNS:cloud.test\n" in said
    assert "IP:0.0.0.0/0.0.0.0" in said
    assert b"PRIVATE KEY" not in b"".join(path.read_bytes() for path in kept.iterdir())


def test_another_runs_authority_is_not_trusted(cloud: NamedSite) -> None:
    kept = cloud.folder / "kept"
    run(cloud, "cp", "-r", "/etc/ssl/certs", str(kept))
    said = run(cloud, *CURL, "--cacert", str(kept / "ca-certificates.crt"),
               cloud.server.url + "/", check=False)  # fmt: skip
    assert said.returncode == 60


def test_a_program_sees_the_networks_own_errors(cloud: NamedSite) -> None:
    assert run(cloud, "curl", "-s", "http://nobody.invalid/", check=False).returncode == 6
    assert run(cloud, "curl", "-s", "http://127.0.0.1:9/", check=False).returncode == 7
    assert run(cloud, "sh", "-c", "exit 9", check=False).returncode == 9
    assert run(cloud, "no-such-program", check=False).returncode == 127
    assert run(cloud, "sh", "-c", "kill -TERM $$", check=False).returncode == 143


@requires("setpriv", "userns")
def test_nothing_of_it_needs_root(cloud: NamedSite) -> None:
    """The daemon is this user's; the run is too, without any capability."""
    (cloud.server.files / "a").write_bytes(b"content")
    for path in [cloud.folder / "r", *(cloud.folder / "r").iterdir()]:
        os.chown(path, 65534, 65534)
    drop = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    said = run(cloud, *CURL, cloud.server.url + "/a", before=drop)
    assert said.stdout == "content"
    assert run(cloud, "id", "-u", before=drop).stdout == "65534\n"
    assert run(cloud, "nft", "flush", "ruleset", before=drop, check=False).returncode != 0
    assert eventually(lambda: cloud.ask("stats")["requests"] == 1)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
