# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Debian's OpenSSH, carried: whoever is logged in stays so, and so does what runs there."""

from pathlib import Path

import pytest

from tests.client.carried import carried_world
from tests.client.world import carried_of
from tests.machines import MACHINE
from tests.needs import requires
from tests.services.examples import example
from tests.services.terminal import terminal
from wire import Identity

pytestmark = [
    pytest.mark.machine,
    pytest.mark.nightly,
    requires(*MACHINE, "apt-get", "sshd", "ssh"),
]

KEYS = "root/.ssh/authorized_keys"


def test_a_session_with_a_running_top_survives_a_move(tmp_path: Path) -> None:
    person = Identity.create(tmp_path / "id")
    example("sshd", tmp_path, {KEYS: f"{person.public}\n".encode()})
    with carried_world("sshd") as world:
        session = world.session()
        options = ("StrictHostKeyChecking=accept-new", f"UserKnownHostsFile={tmp_path / 'known'}")
        words = [word for option in options for word in ("-o", option)]
        login = ["ssh", "-F", "none", "-i", str(person.path), "-p", str(session.port), *words]
        with terminal([*login, "-tt", "root@127.0.0.1"]) as person_at:
            # Words are not typed as they are shown: a terminal shows what is typed, too.
            person_at.types("stty rows 24 cols 80; PS1='rea''dy: '; echo she''ll $$\n")
            person_at.shows("shell ")
            shell = person_at.shows("\r\n")
            assert shell.isdigit()
            person_at.shows("ready: ")
            person_at.types("top -d 1\n")
            person_at.shows("load average")
            print(session.move("a"))
            person_at.skip()
            person_at.shows("top - ")  # what it shows once a second
            person_at.shows("load average")
            person_at.types("q")
            person_at.shows("ready: ")  # it throws away what is typed before
            person_at.types("echo sti''ll $$\n")
            person_at.shows("still ")
            assert person_at.shows("\r\n") == shell
            person_at.types("exit 7\n")
            assert person_at.ends() == 7
        assert carried_of(session).relay.counts().reset == 0
