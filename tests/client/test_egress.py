# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a guest reaches outside: what is in its list, and nothing else, whatever it says.

The agent is a process of this host, so what listens for the guest's programs is here, at addresses
of 127.88.0.0/16.
"""

import contextlib
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.streams.outbound import OutboundConnections
from homeserver.guests.egress_doors import EgressDoors
from images import EgressRule, Recipe
from replay import StreamRelay
from satchel.errors import NotFoundError
from tests.replay.agents import free_port, running_agent
from tests.replay.test_streams import Echo, Guest, Source, pattern, receive, serving
from tests.waiting import PATIENCE_SECONDS, eventually
from wire import Egress, EgressFailed, EgressRefused, read_destination, send_destination
from wire.ports.egress import is_public

WAITS = PATIENCE_SECONDS


@contextmanager
def guest_with(folder: Path, *inside: str) -> Iterator[Guest]:
    """An agent that listens there for its programs, and a relay to it."""
    relay = StreamRelay("test")
    more = ("--streams", folder / "streams")
    words = {"streams": "9", "egress": " ".join(inside)}
    with (
        running_agent(folder, "exec sleep 1000", more, port="", **words) as running,
        running.connect() as agent,
    ):
        agent.hello()
        made = Guest(folder, agent, relay)
        try:
            yield made
        finally:
            relay.close()
            made.door.close()


@contextmanager
def going_out(made: Guest, egress: Egress) -> Iterator[None]:
    outgoing = OutboundConnections(made.relay, egress.connect)
    try:
        yield
    finally:
        made.relay.close()
        outgoing.close()


def program(place: str) -> socket.socket:
    """A connection of a program's in the guest."""
    host, _, port = place.rpartition(":")
    return socket.create_connection((host, int(port)), WAITS)


@contextmanager
def reaching_an_echo(folder: Path) -> Iterator[tuple[Guest, str]]:
    """A guest in whose list an echo is, and where its programs have that."""
    place = f"127.88.0.1:{free_port()}"
    with (
        serving(Echo) as echo,
        guest_with(folder, place) as made,
        going_out(made, Egress([f"127.0.0.1:{echo}"])),
    ):
        made.attach()
        yield made, place


def test_programs_reach_each_what_they_connect_to(short_path: Path) -> None:
    places = [f"127.88.0.1:{free_port()}", f"127.88.0.2:{free_port()}"]
    with serving(Echo) as echo, serving(Source) as source, guest_with(short_path, *places) as made:
        egress = Egress([f"127.0.0.1:{echo}", f"127.0.0.1:{source}"])
        with going_out(made, egress):
            made.attach()
            for _ in range(10):  # more than wait at a time
                with program(places[0]) as one, program(places[1]) as two:
                    one.sendall(b"said")
                    assert receive(one, 4) == b"said"
                    two.sendall(struct.pack("<Q", 100_000))
                    assert receive(two, 100_001) == pattern(100_000)


def test_a_connection_to_the_outside_goes_on_over_the_next_carrier(short_path: Path) -> None:
    with reaching_an_echo(short_path) as (made, place), program(place) as one:
        for number in range(3):
            one.sendall(b"%4d" % number)
            assert receive(one, 4) == b"%4d" % number
            made.attach()


def test_a_machine_of_an_older_checkpoint_reaches_it_as_well(short_path: Path) -> None:
    with reaching_an_echo(short_path) as (made, place):
        with program(place) as lost:
            lost.sendall(b"1")
            assert receive(lost, 1) == b"1"
            made.relay.begin_anew()
            made.attach()
            with contextlib.suppress(ConnectionResetError):
                assert lost.recv(1) == b""
        with program(place) as one:
            one.sendall(b"2")
            assert receive(one, 1) == b"2"


def test_what_cannot_be_reached_ends_the_program_s_connection(short_path: Path) -> None:
    place = f"127.88.0.1:{free_port()}"
    with (
        guest_with(short_path, place) as made,
        going_out(made, Egress([f"127.0.0.1:{free_port()}"])),
    ):
        made.attach()
        with program(place) as one:
            assert one.recv(1) == b""


def test_nothing_but_the_list_is_listened_at(short_path: Path) -> None:
    place = f"127.88.0.1:{free_port()}"
    with guest_with(short_path, place), pytest.raises(ConnectionRefusedError):
        program(f"127.88.0.1:{free_port()}")


def test_a_name_that_leads_to_a_private_place_is_refused() -> None:
    """Whoever answers for a listed name may say that it is the owner's own router."""
    with serving(Echo) as echo:
        with pytest.raises(EgressRefused, match="is not public"):
            Egress([f"localhost:{echo}"]).connect(0)
        with Egress([f"127.0.0.1:{echo}"]).connect(0) as listed:
            listed.sendall(b"x")
            assert receive(listed, 1) == b"x"


@pytest.mark.parametrize("number", [1, 7, 65535, -1])
def test_a_number_that_is_not_in_the_list_is_refused(number: int) -> None:
    with pytest.raises(EgressRefused, match="not in its list"):
        Egress(["127.0.0.1:1"]).connect(number)


def test_what_nobody_answers_at_is_told() -> None:
    with pytest.raises(EgressFailed, match="cannot reach 127"):
        Egress([f"127.0.0.1:{free_port()}"]).connect(0)
    with pytest.raises(EgressFailed, match="cannot look up"):
        Egress(["no-such-name.invalid:80"]).connect(0)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        *(("93.184.216.34", True), ("2606:2800:220:1::1", True)),
        *(("127.0.0.1", False), ("10.1.2.3", False), ("192.168.1.1", False), ("::1", False)),
        *(
            ("169.254.169.254", False),
            ("0.0.0.0", False),
            ("224.0.0.1", False),
            ("fe80::1%lo", False),
        ),
        *(("::ffff:127.0.0.1", False), ("64:ff9b::a00:1", False), ("2002:7f00:1::", False)),
        ("::ffff:93.184.216.34", True),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


def test_home_lets_out_what_it_has_signed(short_path: Path) -> None:
    doors = EgressDoors(short_path)
    with serving(Echo) as echo, serving(Source) as hidden:
        rule = EgressRule("home", (f"127.0.0.1:{echo}",))
        path = doors.open("kept", rule)
        assert doors.open("kept", rule) == path

        def said(number: int) -> bytes:
            with socket.socket(socket.AF_UNIX) as way:
                way.settimeout(WAITS)
                way.connect(bytes(path))
                send_destination(way, number)
                way.sendall(b"said")
                way.shutdown(socket.SHUT_WR)
                return receive(way, 4)

        assert said(0) == b"said"
        for number in (1, hidden, 65535):
            with contextlib.suppress(OSError):  # it may have closed before we were through
                assert said(number) == b""
        for other in (None, EgressRule("client", rule.hosts)):
            with pytest.raises(NotFoundError, match="goes out at home"):
                doors.open("other", other)
        doors.close()
        assert eventually(lambda: not path.exists())


def test_a_service_whose_list_has_changed_takes_nobodys_door(short_path: Path) -> None:
    """The third door had the path of the one that was opened anew."""
    doors = EgressDoors(short_path)
    lists = [EgressRule("home", (f"192.0.2.{n}:80",)) for n in range(1, 5)]
    doors.open("one", lists[0])
    paths = [doors.open("two", lists[1]), doors.open("one", lists[2])]
    paths.append(doors.open("three", lists[3]))
    assert len(set(paths)) == 3
    for path in paths:
        with socket.socket(socket.AF_UNIX) as way:
            way.connect(bytes(path))
    doors.close()


def test_half_a_number_is_none() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        one.close()
        assert read_destination(other) is None


def test_a_recipe_says_what_its_guest_may_reach(tmp_path: Path) -> None:
    folder = tmp_path / "thing"
    folder.mkdir()
    (folder / "recipe.toml").write_text(
        'name = "thing"\ncontract = "carry"\negress = "home"\n'
        'egress-hosts = ["one.example:443", "10.0.0.5:8000", "one.example:80", "two.example:443"]\n'
    )
    recipe = Recipe.load(folder)
    assert "egress=127.88.0.1:443 10.0.0.5:8000 127.88.0.1:80 127.88.0.3:443" in (
        recipe.service_file().splitlines()
    )
    assert recipe.hosts_file() == "127.88.0.1 one.example\n127.88.0.3 two.example\n"
    said = recipe.contract_spec().egress
    assert said == EgressRule("home", recipe.egress_hosts)
