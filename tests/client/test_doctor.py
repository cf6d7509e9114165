# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel doctor`: a log on two fresh replicas at home, and who can run a service."""

import dataclasses
import json
from typing import Any

import pytest
from click.testing import CliRunner

from client.cli.doctor import command
from homeserver.services.doctor import _counters, excerpt
from satchel.errors import NotFoundError, UsageError
from tests.client.test_quarantine import Straying
from tests.client.world import World, post
from tests.needs import requires
from tests.waiting import eventually

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")


def doctor(world: World, *words: str) -> tuple[int, Any]:
    """What it returns, which becomes the exit code, and what it says."""
    done = CliRunner().invoke(command, ["notes", *words], obj=world.settings, standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.return_value, json.loads(done.output) if "--json" in words else done.output


def test_a_host_that_cannot_run_a_service_says_so_before_anybody_goes_there(world: World) -> None:
    """One emulates and may not, one has KVM, and one is switched off."""
    world.home.launch("notes")
    world.home.carry("notes", world.stick)
    code, told = doctor(world, "--host", "a", "--host", "b")
    assert (code, told) == (0, "a runs it under tcg\nb runs it under tcg\n")
    spots = world.spots
    settings = dataclasses.replace(spots["a"].host.settings, allow_emulation=False)
    spots["a"].host.settings = settings
    spots["b"].driver.accelerators = ("kvm", "tcg")
    for place in ((), ("--media", str(world.stick))):
        code, told = doctor(world, "--host", "a", "--host", "b", *place)
        assert code == 10
        first, second = told.splitlines()
        assert first.startswith("a cannot run it: this host lacks kvm in this test; ")
        assert first.endswith("use a host with KVM; or its operator may set allow-emulation = true")
        assert second == "b runs it under kvm"
    spots["b"].cut()
    code, (fit,) = doctor(world, "--host", "b", "--json")
    assert (code, fit["runs"]) == (8, None)
    with pytest.raises(NotFoundError):
        doctor(world, "--host", "c")


def test_what_a_recipe_can_choose_reaches_different_hosts(world: World) -> None:
    """One emulates and has no KVM; the other has KVM, and may not emulate."""
    world.home.launch("notes")
    other = world.spots["b"]
    other.driver.accelerators = ("kvm", "tcg")
    other.host.settings = dataclasses.replace(other.host.settings, allow_emulation=False)
    code, told = doctor(world, "--host", "a", "--host", "b", "--choices", "--json")
    reached = {
        choice: [fit["accelerator"] if fit["runs"] else None for fit in fits]
        for choice, fits in told.items()
    }
    assert (code, reached) == (
        0,
        {
            "portable = true": ["tcg", "kvm"],
            "portable = false, booted under KVM": [None, "kvm"],
            "portable = false, booted under emulation": ["tcg", None],
        },
    )
    lines = doctor(world, "--host", "a", "--host", "b", "--choices")[1].splitlines()
    assert lines[:3] == ["portable = true", "  a runs it under tcg", "  b runs it under kvm"]
    assert "  b cannot run it: its machine is not portable, and was emulated; " in "\n".join(lines)
    other.cut()
    assert doctor(world, "--host", "b", "--choices")[0] == 8
    with pytest.raises(UsageError, match="which surrogates to ask"):
        doctor(world, "--choices")


def test_a_plan_names_who_cannot_run_the_machine(world: World) -> None:
    world.home.launch("notes")
    runner = world.runner(media=False)
    world.spots["a"].driver.lacking = ("machine type pc-q35-99.0",)
    fits = runner.fits(runner.elsewhere())
    assert [(fit.surrogate, fit.runs) for fit in fits] == [("a", False), ("b", True)]
    assert "pc-q35-99.0" in str(fits[0])


def test_the_doctor_finds_where_two_replicas_part(world: World) -> None:
    home = world.home
    home.launch("notes")
    home.carry("notes", world.stick)
    with pytest.raises(NotFoundError, match="no operation to examine"):
        doctor(world)
    runner = world.runner()
    url = world.proxy(runner)
    for path in ("/a", "/b", "/local"):
        assert post(url, path).status_code == 200
    assert eventually(lambda: home.executed("notes") == 3)
    code, report = doctor(world, "--json")
    assert (code, report["differs"]) == (0, None)
    assert (report["first_operation"], report["last_operation"]) == (1, 3)
    assert report["checkpoint"] == runner.manifest.id
    code, told = doctor(world, "--media", str(world.stick))
    assert (code, told.splitlines()[1]) == (0, "two fresh replicas answered all of them alike")
    running = len(home.driver.machines)
    home.driver.guest = Straying
    code, report = doctor(world, "--json")
    differs = report["differs"]
    assert code == 6
    assert (differs["operation"], differs["request"]) == (3, "POST /local")
    assert differs["cause"] == "randomness"
    assert differs["first"].splitlines()[0] == "HTTP/1.1 200 OK"
    assert differs["first"] != differs["second"]
    assert len(home.driver.machines) == running + 4
    code, told = doctor(world, "--media", str(world.stick))
    assert code == 6
    assert "likely cause: randomness: it differs in each of three runs" in told
    assert post(url).status_code == 200
    assert home.executed("notes") >= 3


def test_what_a_service_says_to_itself_is_no_network() -> None:
    snmp = (
        "Ip: Forwarding DefaultTTL OutRequests OutNoRoutes\nIp: 2 64 90 {routes}\n"
        "Tcp: RtoAlgorithm ActiveOpens\nTcp: 1 {opens}\n"
        "Udp: InDatagrams NoPorts OutDatagrams\nUdp: 7 {ports} 9\n"
    )
    told = {"routes": 2, "opens": 40, "ports": 3}
    assert list(_counters(snmp.format(**told))) == [2, 3]


def test_an_answer_is_harmless_on_a_terminal() -> None:
    assert (
        excerpt(b"a\x1b]0;title\x07\xff\r\n" + b"b" * 1000)
        == "a\ufffd]0;title\ufffd\ufffd\n" + "b" * 386
    )
