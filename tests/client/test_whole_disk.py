# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A cloud image, unmodified, carried as a whole disk: it starts by GRUB and systemd, its cloud-init
takes the agent from a second disk, and an ssh session into it goes on through a move."""

import subprocess
from pathlib import Path

import pytest

from images import build, changed, target
from replay import agent_program
from testbed.built import cache_folder
from tests.client.carried import carried_world
from tests.client.world import carried_of
from tests.images.cloud_disk import CACHE, cloud_disk
from tests.machines import MACHINE
from tests.needs import requires
from tests.waiting import eventually

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    pytest.mark.timeout(2400),
    requires(*MACHINE, "apt-get", "sshd", "ssh", "sfdisk", "grub-mkimage", "genisoimage", "root"),
]


def login_key() -> Path:
    """A key that may log in there."""
    key = CACHE / "login"
    if not key.exists():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    return key


def cloud_image(firmware: str) -> str:
    """The name of an image of the disk, as a person would build it."""
    disk, name = cloud_disk(), f"cloud-{firmware}"
    user_data = CACHE / "user-data"
    public = login_key().with_suffix(".pub").read_text().strip()
    user_data.write_text(
        "#cloud-config\nusers:\n- name: me\n  shell: /bin/sh\n"
        f"  ssh_authorized_keys: ['{public}']\n"
    )
    recipe = changed(target(str(disk), name), [f"user-data={user_data}", f"firmware={firmware}"])
    build(recipe, cache_folder() / name, agent=agent_program())
    return name


class Session:
    """`ssh` into the guest, whose shell stays."""

    def __init__(self, port: int) -> None:
        argv = ["ssh", "-p", str(port), "-i", str(login_key()), "-o", "StrictHostKeyChecking=no"]
        argv += ["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        argv += ["me@127.0.0.1", "/bin/sh"]
        pipe = subprocess.PIPE
        self._ssh = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)

    def says(self, command: str) -> str:
        """The one line that a command prints there."""
        assert self._ssh.stdin and self._ssh.stdout
        self._ssh.stdin.write(f"{command}\n")
        self._ssh.stdin.flush()
        return self._ssh.stdout.readline().strip()

    def end(self) -> int:
        assert self._ssh.stdin
        self._ssh.stdin.close()
        return self._ssh.wait(120)


@pytest.mark.parametrize("firmware", ["bios", "uefi"])
def test_an_ssh_session_into_a_cloud_disk_goes_on_through_a_move(firmware: str) -> None:
    name = cloud_image(firmware)
    with carried_world(name) as world:
        session = world.session()
        shell = Session(session.port)
        assert shell.says("hostname") == name
        started = shell.says("[ -d /sys/firmware/efi ] && echo uefi || echo bios")
        assert started == firmware
        assert shell.says("cat /proc/1/comm") == "systemd"
        assert shell.says("kept=$$; echo $kept").isdigit()
        clock = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource"
        assert shell.says(clock) == "hpet"
        session.move("a")
        assert eventually(lambda: world.home.home.service(name).view().state == "down")
        assert shell.says('[ "$kept" = $$ ] && echo the same') == "the same"
        assert shell.says("hostname") == name
        assert carried_of(session).relay.counts().reset == 0
        assert shell.end() == 0
