# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The author of a recipe wants a file of the person who builds it in the image, where the service
reads it."""

import base64
import contextlib
import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from images import build, target
from images.containers import fetch
from replay import agent_program
from satchel.errors import SatchelError
from testbed.built import built_image, cache_folder
from tests.images.oci import LayerTar, oci_image, plain_image, web_image
from tests.images.small_disk import small_disk
from tests.needs import requires

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY----- of the builder\n" * 40
COMMAND = 'container = "oci:oci:app"\ncommand = "exec sleep 1000"\n'


class Stranger:
    """A recipe named `gift`, as its author hands it out, and the builder's home beside it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.key = self.home / "id_ed25519"
        self.key.write_bytes(SECRET)
        self.recipe = folder / "recipes" / "gift"
        self.files = self.recipe / "files"
        self.files.mkdir(parents=True)

    def says(self, text: str) -> None:
        (self.recipe / "recipe.toml").write_text(f'name = "gift"\n{text}')


def a_link(stranger: Stranger) -> None:
    (stranger.files / "page").symlink_to(stranger.key)
    stranger.says(COMMAND)


def a_relative_link(stranger: Stranger) -> None:
    (stranger.files / "srv").mkdir()
    (stranger.files / "srv" / "page").symlink_to("../../../../home/id_ed25519")
    stranger.says(COMMAND)


def a_link_by_another(stranger: Stranger) -> None:
    (stranger.recipe / "out").symlink_to(stranger.home)
    (stranger.files / "page").symlink_to("../out/id_ed25519")
    stranger.says(COMMAND)


def all_of_it(stranger: Stranger) -> None:
    stranger.files.rmdir()
    stranger.files.symlink_to(stranger.home)
    stranger.says(COMMAND)


def a_base(stranger: Stranger) -> None:
    """The recipe extends another one, whose files are the builder's folder."""
    (stranger.recipe.parent / "other").mkdir()
    (stranger.recipe.parent / "other" / "recipe.toml").write_text('name = "other"\n')
    (stranger.recipe.parent / "other" / "files").symlink_to(stranger.home)
    stranger.says('extends = "other"\ncommand = "exec sleep 1000"\n')


def user_data(stranger: Stranger) -> None:
    small_disk(stranger.recipe / "a.raw")
    stranger.says(f'disk = "a.raw"\ncontract = "carry"\nuser-data = "{stranger.key}"\n')


def a_disk(stranger: Stranger) -> None:
    disk = small_disk(stranger.home / "own.raw")
    with disk.open("r+b") as file:
        file.seek(12 << 20)
        file.write(SECRET)
    stranger.says('disk = "../../home/own.raw"\ncontract = "carry"\n')


def a_container(stranger: Stranger) -> None:
    layer = LayerTar(stranger.home / "layer.tar")
    layer.file("srv/key", SECRET)
    oci_image(stranger.home / "oci", [layer.close()], ("--config.cmd", "/x"))
    stranger.says(f'container = "oci:{stranger.home}/oci:app"\ncommand = "exec sleep 1000"\n')


@requires("skopeo", "umoci", "busybox", "mmdebstrap", "apt-get", "debugfs", "genisoimage")
@pytest.mark.parametrize(
    "ruse",
    [a_link, a_relative_link, a_link_by_another, all_of_it, a_base, user_data, a_disk, a_container],
)
def test_no_file_of_the_builder_gets_into_an_image(
    tmp_path: Path, ruse: Callable[[Stranger], None]
) -> None:
    stranger = Stranger(tmp_path)
    ruse(stranger)
    if "oci:oci:app" in (stranger.recipe / "recipe.toml").read_text():
        web_image(stranger.recipe)
    built_image("notes")  # whose kernel is kept
    made = tmp_path / "made"
    made.mkdir()
    layers = cache_folder() / "layers"
    with contextlib.suppress(SatchelError):
        build(target(str(stranger.recipe)), made, agent=agent_program(), layers=layers)
    assert not any(SECRET[:50] in path.read_bytes() for path in made.iterdir())


@pytest.mark.nightly
@requires("skopeo", "umoci", "busybox", "buildah", "bwrap", "root")
def test_what_a_dockerfile_runs_reaches_no_process_of_the_builder(short_path: Path) -> None:
    """Each line runs as root, and the builder's processes are root's."""
    stranger = short_path / "gift"
    web_image(stranger)
    canary = ["sleep", "1000.25"]
    find = "grep -l '1000[.]25' /proc/[0-9]*/cmdline | tr -dc '0-9\\n'"
    (stranger / "Dockerfile").write_text(
        "FROM oci:oci:app\nUSER 0\n"
        f"RUN for p in $({find}); do kill -9 $p; echo $p; done >/found; test -e /found\n"
        f"RUN ! cat {short_path}/secret /proc/*/root{short_path}/secret >/secret 2>/dev/null\n"
    )
    (short_path / "secret").write_bytes(SECRET)
    scratch = short_path / "scratch"
    scratch.mkdir()
    with subprocess.Popen(canary) as victim:
        try:
            fetch(str(stranger), Path("/"), scratch, short_path / "storage")
            assert victim.poll() is None
        finally:
            victim.kill()
    assert not any(
        SECRET[:50] in path.read_bytes() for path in scratch.rglob("*") if path.is_file()
    )


def signed(image: Path, key: Path, reference: str) -> None:
    """Put a signature of cosign's format beside an image in a folder, as `dir:` has it."""
    digest = hashlib.sha256((image / "manifest.json").read_bytes()).hexdigest()
    critical = {
        "identity": {"docker-reference": reference},
        "image": {"docker-manifest-digest": f"sha256:{digest}"},
        "type": "cosign container image signature",
    }
    payload = json.dumps({"critical": critical, "optional": None}).encode()
    argv = ["openssl", "dgst", "-sha256", "-sign", str(key)]
    made = subprocess.run(argv, input=payload, check=True, capture_output=True).stdout
    value = {
        "mimeType": "application/vnd.dev.cosign.simplesigning.v1+json",
        "payload": base64.b64encode(payload).decode(),
        "annotations": {"dev.cosignproject.cosign/signature": base64.b64encode(made).decode()},
    }
    (image / "signature-1").write_bytes(b"\0sigstore-json\n" + json.dumps(value).encode())


@requires("skopeo", "openssl", "busybox")
@pytest.mark.parametrize("signer", ["", "other", "own"])
def test_an_image_is_signed_as_the_builder_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signer: str
) -> None:
    """The builder's policy.json has the keys. Debian 12's skopeo refuses every image then."""
    for name in ("own", "other"):
        argv = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"]
        subprocess.run([*argv, "-out", tmp_path / name], check=True)
    argv = ["openssl", "ec", "-in", str(tmp_path / "own"), "-pubout", "-out", str(tmp_path / "pub")]
    subprocess.run(argv, check=True, capture_output=True)
    reference = "registry.example/app:1"
    rule = {
        "type": "sigstoreSigned",
        "keyPath": str(tmp_path / "pub"),
        "signedIdentity": {"type": "exactReference", "dockerReference": reference},
    }
    policy = tmp_path / ".config" / "containers" / "policy.json"
    policy.parent.mkdir(parents=True)
    policy.write_text(json.dumps({"default": [rule]}))
    image = plain_image(tmp_path / "image", {"Cmd": ["/x"]}, [])
    if signer:
        signed(tmp_path / "image", tmp_path / signer, reference)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "scratch").mkdir()
    try:
        fetch(image, Path("/"), tmp_path / "scratch", tmp_path / "storage")
    except SatchelError as error:
        assert signer != "own" or "sigstore disabled" in str(error)
    else:
        assert signer == "own"
