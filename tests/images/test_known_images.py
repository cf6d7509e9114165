# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Images made like well-known ones become guests whose services are served, each in a machine."""

from pathlib import Path

import pytest

from images import BuiltImage, build, changed, target
from replay import agent_program
from testbed.built import built_image, cache_folder
from tests.images import known_images as known
from tests.images.guest import running
from tests.images.known_images import KNOWN, PEM, KnownImage
from tests.images.oci import LayerTar
from tests.needs import requires

pytestmark = [
    pytest.mark.machine,
    requires("qemu-system-x86_64", "mmdebstrap", "apt-get", "debugfs", "skopeo", "busybox"),
]

FIND = """\
b=/usr/lib/satchel/busybox
[ -e $b ] && alias tr="$b tr" grep="$b grep"
for p in /proc/[0-9]*; do
  p=${p#/proc/}
  read -r name </proc/$p/comm
  [ $name = httpd ] && break
done
"""
"""Finds the service's process; an image of one program has no programs for that."""


def built(image: KnownImage, folder: Path, name: str) -> BuiltImage:
    built_image("notes")  # whose kernel is kept
    recipe = changed(target(image.make(folder / "made"), name), ["disk-mib=1024"])
    layers = cache_folder() / "layers"
    return build(recipe, folder / name, agent=agent_program(), layers=layers)


def tried(image: KnownImage, folder: Path, short: Path, name: str) -> None:
    made = built(image, folder, name)
    assert made.recipe.port == image.port
    with running(made, short) as guest:
        guest.shell(f"{FIND}set -x\n{image.check}")


def everything(layer: LayerTar) -> None:
    for fill in (known.database, known.names, known.lastlog, known.hard, known.web):
        fill(layer)


def test_one_image_with_all_that_is_odd_serves(tmp_path: Path, short_path: Path) -> None:
    """The others, each by itself, are tried at night."""
    log = "/var/log/nginx/access.log"
    script = f"cat /proc/$$/environ >/tmp/environ; echo begun by $(id -u) >>{log}\n"
    script += "exec httpd -f -p 127.0.0.1:80"
    config = {
        "Entrypoint": ["/bin/sh", "-c", script],
        "User": "app:logs",
        "Env": [f"TLS_KEY={PEM}", "discovery.type=single-node"],
        "ExposedPorts": {"80-81/tcp": {}, "33060-33061/tcp": {}},
        "Volumes": {"/var/run/mysqld/my data:1": {}},
        "WorkingDir": "/var/run/mysqld",
    }
    checks = [KNOWN[name].check for name in ("search-server", "ci-server", "large-user")]
    checks[0] = "grep -q 'files *65536' /proc/$p/limits"  # a shell drops the variable, but has it
    given = "tr '\\0' '\\n' </tmp/environ | grep -q"
    checks += [
        "test $(readlink /proc/$p/cwd) = /run/mysqld",
        "test $(stat -c %u:%a /run/mysqld) = 1000:770",
        "test $(stat -c %h /opt/tool) = 3",
        "test $(stat -c %u '/run/mysqld/my data:1') = 1000",
        f"{given} '^-----END CERT'",
        f"{given} '^discovery.type=single-node'",
        "test $(stat -c %a /tmp/.dotnet/lockfiles) = 777",
        "grep -q ' /run/satchel tmpfs' /proc/mounts",
    ]
    image = KnownImage(config, " && ".join(checks), everything, port=80)
    tried(image, tmp_path, short_path, "odd")
    assert "begun by 1000" in (short_path / "console").read_text(errors="replace")


@pytest.mark.nightly
@pytest.mark.parametrize("name", KNOWN)
def test_an_image_like_a_well_known_one_serves(tmp_path: Path, short_path: Path, name: str) -> None:
    tried(KNOWN[name], tmp_path, short_path, name)
    if KNOWN[name].config.get("Entrypoint", [""])[-1].startswith("echo begun"):
        assert "begun" in (short_path / "console").read_text(errors="replace")
