# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Containers' images become images of guests, whose disks debugfs reads."""

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest

from images import BuiltImage, ContainerRefused, LayerInvalid, build, changed, target
from images.containers import Container, fetch
from replay import agent_program
from satchel.errors import UnsupportedError, UsageError
from testbed.built import built_image, cache_folder
from tests.images.oci import (
    CAPABILITY,
    LayerTar,
    base_layer,
    oci_image,
    plain_image,
    run,
    upper_layer,
    web_image,
)
from tests.images.test_builder import blocks
from tests.needs import requires

pytestmark = requires("skopeo", "umoci", "busybox")


def fetched(reference: str, scratch: Path) -> Container:
    scratch.mkdir()
    return fetch(reference, Path("/"), scratch, scratch / "storage")


def built(reference: str, folder: Path, *changes: str) -> BuiltImage:
    """Built with the kernel that other images have."""
    built_image("notes")
    recipe = changed(target(reference, "web"), ("disk-mib=1024", *changes))
    return build(recipe, folder / "web", agent=agent_program(), layers=cache_folder() / "layers")


def debugfs(image: BuiltImage, request: str) -> str:
    environment = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"}
    argv = ["debugfs", "-R", request, str(image.disk)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def test_an_image_says_how_it_is_run(tmp_path: Path) -> None:
    said = fetched(web_image(tmp_path / "image"), tmp_path / "scratch").settings
    assert said.command == ("/bin/httpd", "-f", "-p", "127.0.0.1:8000", "-h", "/srv")
    assert (said.user, said.workdir, said.ports) == ("web:others", "/srv", (8000,))
    assert said.volumes == ("/var/lib/web",)
    assert "WORD=two words" in said.environment


def test_an_archive_of_docker_has_the_same_files_and_settings(tmp_path: Path) -> None:
    reference = web_image(tmp_path / "image")
    archive = tmp_path / "web.tar"
    run("skopeo", "copy", "--quiet", reference, f"docker-archive:{archive}:web:latest")
    trees: list[Any] = []
    settings = []
    for name in (reference, f"docker-archive:{archive}"):
        scratch = tmp_path / str(len(trees))
        container = fetched(name, scratch)
        (scratch / "contents").mkdir()
        tree = container.tree(scratch / "contents", 64 << 20, ("/dev",))
        trees.append([(path, e.mode, e.uid, e.digest, e.attributes) for path, e in tree.items()])
        settings.append(container.settings)
    assert trees[0] == trees[1]
    assert settings[0] == settings[1]
    assert "/srv/old.html" not in [path for path, *_ in trees[0]]


@requires("mmdebstrap", "apt-get", "debugfs")
def test_a_container_becomes_an_image_with_all_that_is_easily_lost(tmp_path: Path) -> None:
    reference = web_image(tmp_path / "image")
    image = built(reference, tmp_path)
    made = image.disk.stat()
    assert built(reference, tmp_path).disk.stat() == made, "it was built again"
    page = debugfs(image, "stat /srv/index.html")
    assert "Links: 2" in page
    assert debugfs(image, "cat /srv/same.html") == "hello\n"
    assert debugfs(image, "cat /srv/new.html") == "new\n"
    assert "old.html" not in debugfs(image, "ls -p /srv")
    kept = debugfs(image, "stat /bin/bound")
    assert f"security.capability ({len(CAPABILITY)})" in kept
    lines = debugfs(image, "cat /etc/satchel/service").splitlines()
    assert "command=exec /bin/httpd -f -p 127.0.0.1:8000 -h /srv" in lines
    assert {"port=8000", "user=1234:77", "workdir=/srv", "environment=HOME=/srv"} <= set(lines)
    assert "environment=WORD=two words" in lines
    assert "1234     77" in debugfs(image, "ls -l /var/lib")
    assert "localhost" in debugfs(image, "cat /etc/hosts")
    assert image.recipe.state == ("/var/lib/web",)


@requires("mmdebstrap", "apt-get", "debugfs")
def test_a_program_without_a_shell_gets_one_and_images_share_their_layers(tmp_path: Path) -> None:
    one = LayerTar(tmp_path / "one.tar")
    one.file("data", bytes(range(256)) * 8_000)
    shared = one.close()
    made = []
    for name in ("a", "b"):
        layer = LayerTar(tmp_path / f"{name}.tar")
        layer.file("server", name.encode() * 5000, 0o755)
        config = ("--config.entrypoint", "/server", "--config.exposedports", "80/tcp")
        reference = oci_image(tmp_path / f"oci-{name}", [shared, layer.close()], config)
        made.append(built(reference, tmp_path / name))
    assert "/usr/lib/satchel/busybox" in debugfs(made[0], "stat /bin/sh")
    first, second = (blocks(image.disk) for image in made)
    assert len(first & second) / len(first) > 0.95


@requires("mmdebstrap", "apt-get", "debugfs")
def test_a_recipe_may_be_of_a_container_beside_it_and_has_the_last_word(tmp_path: Path) -> None:
    folder = tmp_path / "web"
    (folder / "files" / "srv").mkdir(parents=True)
    (folder / "files" / "srv" / "index.html").write_text("the recipe's\n")
    web_image(folder)
    (folder / "recipe.toml").write_text(
        'name = "web"\ncontainer = "oci:oci:app"\nport = 8001\nuser = "web"\n'
        'command = "exec /bin/httpd -f -p 8001"\nenvironment = ["WORD=another"]\n'
    )
    built_image("notes")
    layers = cache_folder() / "layers"
    image = build(target(str(folder)), tmp_path / "made", agent=agent_program(), layers=layers)
    assert debugfs(image, "cat /srv/index.html") == "the recipe's\n"
    assert debugfs(image, "cat /srv/same.html") == "hello\n"
    lines = debugfs(image, "cat /etc/satchel/service").splitlines()
    assert {"command=exec /bin/httpd -f -p 8001", "port=8001", "user=web"} <= set(lines)
    assert lines.index("environment=WORD=two words") < lines.index("environment=WORD=another")


@requires("mmdebstrap", "apt-get", "debugfs")
def test_a_hostile_layer_ends_the_build_and_leaves_nothing(tmp_path: Path) -> None:
    layer = LayerTar(tmp_path / "hostile.tar")
    layer.device("sda")
    reference = oci_image(tmp_path / "oci", [layer.close()])
    with pytest.raises(LayerInvalid, match="a device"):
        built(reference, tmp_path)
    assert not list((tmp_path / "web").iterdir())
    assert not list((cache_folder() / "layers").glob(".container-*"))


def test_an_image_that_runs_nothing_is_refused(tmp_path: Path) -> None:
    layers = [base_layer(tmp_path / "base.tar"), upper_layer(tmp_path / "upper.tar")]
    nothing = fetched(oci_image(tmp_path / "none", layers, ()), tmp_path / "n")
    with pytest.raises(UsageError, match="runs nothing by itself"):
        nothing.completed(target("oci:none", "none"))


ODD_CONFIG = {
    "Entrypoint": ["/bin/sh", "-c", "a\nexec it's", ""],
    "Env": [
        "discovery.type=x",
        "PEM=-----\n\\key\n",
        "a b-c=d=e",
        "NOTHING",
        "=x",
        "BIG=" + "x" * (1 << 17),
    ],
    "ExposedPorts": {
        **{"33060-33061/tcp": {}, "8080": {}, "53/udp": {}, "9000/TCP": {}},
        **{"1/sctp": {}, "http": {}, "70000/tcp": {}, "9-8/tcp": {}},
    },
    "Volumes": {
        "/my data/a:b": {},
        "/a//b/../c/": {},
        "rel": {},
        "/": {},
        "/proc/x": {},
        "/é\n": {},
    },
    "WorkingDir": "/srv/./it's here/",
    "User": "Some.User$:0",
}


def test_whatever_a_configuration_may_say_is_taken_and_the_rest_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    container = fetched(plain_image(tmp_path / "odd", ODD_CONFIG, []), tmp_path / "s")
    said = container.settings
    assert said.ports == (8080, 9000, 33060)
    assert said.volumes == ("/a/c", "/my data/a:b", "/rel", "/é\n")
    assert (said.workdir, said.user) == ("/srv/it's here", "Some.User$:0")
    assert said.environment == ("discovery.type=x", "PEM=-----\n\\key\n", "a b-c=d=e")
    recipe = container.completed(target(f"dir:{tmp_path}/odd", "odd"))
    left_out = [one.getMessage() for one in caplog.records]
    for part in (
        "'NOTHING'",
        "'=x'",
        "'BIG'",
        "'http'",
        "'70000/tcp'",
        "'9-8/tcp'",
        "'/'",
        "'/proc/x'",
    ):
        assert len([text for text in left_out if part in text]) == 1
    assert len(left_out) == 8
    assert type(recipe).from_json(recipe.to_json()) == dataclasses.replace(recipe, folder=None)
    lines = recipe.service_file().splitlines()
    assert "\\environment=PEM=-----\\n\\\\key\\n" in lines
    assert "environment=discovery.type=x" in lines
    assert """\\command=exec /bin/sh -c 'a\\nexec it'"'"'s' ''""" in lines


def test_what_skopeo_does_not_find_is_told_in_its_words(tmp_path: Path) -> None:
    with pytest.raises(ContainerRefused, match=r"(?s)skopeo failed.*nothing-there"):
        fetched(f"oci:{tmp_path}/nothing-there", tmp_path / "scratch")


def test_a_host_without_skopeo_is_told_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match="install the Debian package skopeo"):
        fetched("oci:app", tmp_path / "scratch")


@pytest.mark.nightly
@requires("buildah")
def test_a_folder_with_a_dockerfile_is_built_once(tmp_path: Path) -> None:
    """Its base is an image beside it, and no registry."""
    context = tmp_path / "context"
    web_image(context)
    (context / "page").write_text("page\n")
    (context / "Dockerfile").write_text(
        "FROM oci:oci:app\nUSER 0\nRUN mkdir /made && cat /srv/new.html > /made/copy\n"
        "COPY page /srv/page.html\nUSER web\nEXPOSE 9000\n"
    )
    keys = []
    for name in ("one", "two"):
        scratch = tmp_path / name
        scratch.mkdir()
        container = fetch(str(context), Path("/"), scratch, tmp_path / "storage")
        keys.append(container.key)
        (scratch / "contents").mkdir()
        tree = container.tree(scratch / "contents", 64 << 20, ("/dev", "/run"))
        assert {"/srv/page.html", "/made/copy", "/srv/new.html"} <= set(tree)
        made = tree["/made/copy"].content
        assert made is not None
        assert made.read_bytes() == b"new\n"
        assert container.settings.user == "web"
        assert container.settings.ports == (8000, 9000)
    assert keys[0] == keys[1]
