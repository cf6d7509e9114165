# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Our units under a systemd that has a kernel of its own: the machine's, and those of people.

The machine is emulated, so this takes no host with systemd. Its root is a Debian in which the
packages are installed. Its processor has SVM: services run there under KVM, as on most hosts.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import requires
from tests.package.cafe import NEWER, PAUSE, SERVICE, SURROGATE, Cafe, renumbered
from tests.package.clean_root import SECONDS
from tests.package.emulated import KERNEL, Emulated, booted, disk_of
from tests.package.installed import SUITE, known_to, with_packages
from tests.waiting import eventually

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.machine,
    pytest.mark.timeout(SECONDS),
    requires("root", "mmdebstrap", "dh", "dh_python3", "fuse", "qemu-system-x86_64", "mke2fs"),
]

HOME = "satchel-home"
SESSION = f"satchel@{SERVICE}"
SHARE = "papers"
MOUNT = f"satchel-mount@{SHARE}"
SYSTEM_UNITS = (SURROGATE, HOME)
USER_UNITS = (HOME, SESSION, MOUNT, "satchel-plugged@sda1", "satchel-home-plugged@sda1")
OWN_SETTINGS = "mkdir -p .config/satchel && touch .config/satchel/home.toml"
"""Those of a home that the machine has are not ada's then."""

EXPOSURE = 29
"""Tenths, of ten: the most that systemd may count for the surrogate's unit."""

PATIENCE = 300.0

LIBVIRT = ["libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu", "python3-libvirt"]
"""Recommended by the packages."""

LISTED = ("virsh", "-q", "list", "--name")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, packages: list[Path]) -> Iterator[Emulated]:
    """Booted, with the service at ada's home, where it has a checkpoint. ada may use KVM."""
    folder = tmp_path_factory.mktemp("systemd")
    more = [*KERNEL, *LIBVIRT, "man-db", "procps"]
    root = with_packages(folder, SUITE, packages, {}, more=more, without=())
    (root.folder / "newer").mkdir()
    for deb in renumbered(packages, folder, NEWER):
        shutil.copy(deb, root.folder / "newer")
    root.run("usermod", "--append", "--groups", "kvm", "ada")
    Cafe.prepare(root)
    root.run("su", "-", "ada", "-c", f"mkdir {SHARE} && {OWN_SETTINGS}")
    disk_of(root, folder / "disk")
    with booted(root, folder / "disk", folder / "port") as made:
        for person in ("ada", "bob"):
            made.run("loginctl", "enable-linger", person)
        yield made
    shutil.rmtree(folder, ignore_errors=True)


def shown(machine: Emulated, unit: str, name: str, user: str = "") -> str:
    """A property of a unit: of the machine, or of that person's."""
    manager = ["--user"] if user else []
    argv = ["systemctl", *manager, "show", "--value", "-p", name, unit]
    return machine.run(*argv, user=user or "root").strip()


def is_up(machine: Emulated, unit: str, user: str = "") -> None:
    """By what the daemon told systemd itself."""
    assert shown(machine, unit, "Type", user) == "notify"
    states = [shown(machine, unit, name, user) for name in ("ActiveState", "SubState")]
    assert states == ["active", "running"]


def ends_well(machine: Emulated, unit: str, user: str = "") -> None:
    """By SIGTERM."""
    manager = ["--user"] if user else []
    machine.run("systemctl", *manager, "stop", unit, user=user or "root")
    killed = ("2", "3")  # CLD_KILLED, CLD_DUMPED
    names = ("ActiveState", "Result", "ExecMainCode")
    state, result, code = (shown(machine, unit, name, user) for name in names)
    assert (state, result) == ("inactive", "success")
    assert code not in killed  # systemd may have forgotten the unit already


def gives_up(machine: Emulated, unit: str, user: str = "") -> None:
    """It does not start, says why, and is not started again until somebody does."""
    manager = ["--user"] if user else []
    code, _, _ = machine.tries("systemctl", *manager, "start", unit, user=user or "root")
    assert code != 0
    names = ("ActiveState", "SubState", "NRestarts")
    assert [shown(machine, unit, name, user) for name in names] == ["failed", "failed", "0"]


def replaced_in(machine: Emulated, unit: str, before: str, user: str = "") -> None:
    """Another process than `before` is up there, or will be."""

    def is_there() -> bool:
        names = ("ActiveState", "MainPID")
        state, process = (shown(machine, unit, name, user) for name in names)
        return state == "active" and process != before

    assert eventually(is_there, PATIENCE, PAUSE), machine.run(
        "journalctl", "--no-pager", "-n", "50"
    )
    is_up(machine, unit, user)


def starts_anew(machine: Emulated, unit: str, user: str = "") -> None:
    """By `reload-or-restart`: another process, that is up."""
    before = shown(machine, unit, "MainPID", user)
    manager = ["--user"] if user else []
    machine.run("systemctl", *manager, "reload-or-restart", unit, user=user or "root")
    replaced_in(machine, unit, before, user)


def test_systemd_finds_nothing_wrong_with_any_unit(machine: Emulated) -> None:
    """Man pages that a unit names are looked for as well."""
    listed = machine.run("sh", "-c", "dpkg -L satchel satchel-home satchel-surrogate")
    found = {Path(row).stem for row in listed.splitlines() if row.endswith(".service")}
    assert found == {name.split("@")[0] + "@" * ("@" in name) for name in SYSTEM_UNITS + USER_UNITS}
    for manager, units in (("--system", SYSTEM_UNITS), ("--user", USER_UNITS)):
        argv = ["systemd-analyze", manager, "verify", *(f"{unit}.service" for unit in units)]
        code, said, complaints = machine.tries(*argv)
        assert (code, said, known_to(complaints)) == (0, "", "")


def test_a_surrogate_is_exposed_no_more_than_it_was(
    machine: Emulated, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["systemd-analyze", "security", f"--threshold={EXPOSURE}", "--no-pager", SURROGATE]
    said = machine.run(*argv)
    with capsys.disabled():
        print(f"\n{said}")


def test_a_surrogate_is_up_and_may_use_kvm(machine: Emulated) -> None:
    is_up(machine, SURROGATE)
    assert shown(machine, SURROGATE, "NRestarts") == "0"
    assert "KVM" in machine.run("journalctl", "--no-pager", "-o", "cat", "-u", SURROGATE)
    doctor = machine.tries(SURROGATE, "status", "--json")[1]
    assert '"lacking": {}' in doctor, doctor


def test_a_person_who_may_not_use_kvm_is_told(machine: Emulated) -> None:
    """bob is in no group."""
    for person, told in (("ada", False), ("bob", True)):
        said = machine.tries("satchel-home", "doctor", user=person)[1]
        assert (f"{person} may not use /dev/kvm" in said) == told, said


def test_a_surrogate_starts_anew_and_ends_well(machine: Emulated) -> None:
    starts_anew(machine, SURROGATE)
    assert shown(machine, SURROGATE, "NRestarts") == "1"
    ends_well(machine, SURROGATE)
    machine.run("systemctl", "start", SURROGATE)


def test_a_surrogate_with_wrong_settings_says_so(machine: Emulated) -> None:
    settings = "/etc/satchel/surrogate.toml"
    machine.run("sh", "-c", f"cp {settings} {settings}.good && echo nonsense = 1 >> {settings}")
    machine.run("systemctl", "stop", SURROGATE)
    gives_up(machine, SURROGATE)
    machine.run("mv", f"{settings}.good", settings)
    machine.run("systemctl", "start", SURROGATE)
    is_up(machine, SURROGATE)


def test_a_home_of_the_machine(machine: Emulated) -> None:
    machine.run("systemctl", "start", HOME)
    assert shown(machine, HOME, "ConditionResult") == "no"  # nobody wants one
    machine.run("cp", "/usr/share/doc/satchel-home/examples/home.toml", "/etc/satchel/")
    gives_up(machine, HOME)
    machine.run("satchel-home", "init", user="satchel-home")
    machine.run("systemctl", "start", HOME)
    is_up(machine, HOME)
    starts_anew(machine, HOME)
    ends_well(machine, HOME)


def test_whoever_may_not_use_that_home_does_not_try_for_ever(machine: Emulated) -> None:
    """Settings in /etc are those of people without their own, too."""
    gives_up(machine, HOME, "bob")
    machine.run("rm", "/etc/satchel/home.toml")


def test_a_home_of_a_person(machine: Emulated) -> None:
    machine.run("systemctl", "--user", "start", HOME, user="ada")
    is_up(machine, HOME, "ada")
    status = machine.run("cat", f"/proc/{shown(machine, HOME, 'MainPID', 'ada')}/status")
    assert "NoNewPrivs:\t1\n" in status
    assert "Seccomp:\t2\n" in status
    starts_anew(machine, HOME, "ada")
    ends_well(machine, HOME, "ada")


@pytest.mark.parametrize("unit", [HOME, SESSION, MOUNT])
def test_without_a_home_nothing_is_tried_for_ever(machine: Emulated, unit: str) -> None:
    gives_up(machine, unit, "bob")
    log = machine.run("journalctl", "--user", "--no-pager", "-o", "cat", "-u", unit, user="bob")
    assert "no home" in log
    machine.run("systemctl", "--user", "reset-failed", user="bob")


@pytest.fixture(scope="module")
def cafe(machine: Emulated) -> Cafe:
    """ada's home by her unit, the surrogate by its own, and bob's laptop paired with both."""
    made = Cafe(machine)
    made.open("systemctl", "--user", "start", HOME)
    return made


def test_a_share_is_mounted_by_its_unit(machine: Emulated, cafe: Cafe) -> None:
    machine.run("sh", "-c", f"satchel-home share add ~/{SHARE}", user="ada")
    machine.run("systemctl", "--user", "start", MOUNT, user="bob")
    is_up(machine, MOUNT, "bob")
    machine.run("sh", "-c", f"echo 'Dear reader' > Satchel/{SHARE}/letter", user="bob")
    starts_anew(machine, MOUNT, "bob")
    ends_well(machine, MOUNT, "bob")
    assert machine.run("cat", f"{SHARE}/letter", user="ada") == "Dear reader\n"
    assert "satchel" not in machine.run("cat", "/proc/mounts")


def test_a_session_is_up_by_its_unit(machine: Emulated, cafe: Cafe) -> None:
    machine.run("systemctl", "--user", "start", SESSION, user="bob")
    is_up(machine, SESSION, "bob")
    assert cafe.status()["replicas"]
    starts_anew(machine, SESSION, "bob")
    ends_well(machine, SESSION, "bob")


def test_an_upgrade_restarts_the_daemons_and_leaves_a_guest_running(
    machine: Emulated, cafe: Cafe
) -> None:
    """The guest is a real machine in a cell of the surrogate's unit."""
    cafe.use()
    cafe.write()
    cafe.catch_up()
    machine.run("cp", "/usr/share/doc/satchel-home/examples/home.toml", "/etc/satchel/")
    machine.tries("satchel-home", "init", user="satchel-home")  # unless it is there already
    machine.run("systemctl", "start", HOME)
    guests, daemons = cafe.guests(), {}
    assert len(guests) == 1
    for unit in SYSTEM_UNITS:
        daemons[unit] = shown(machine, unit, "MainPID")
    machine.run("sh", "-c", "dpkg -i /newer/*.deb")
    for unit in SYSTEM_UNITS:
        replaced_in(machine, unit, daemons[unit])
    before = cafe.status()["last_operation"]
    cafe.write()
    cafe.catch_up()
    assert cafe.status()["last_operation"] > before
    assert cafe.guests() == guests


def test_machines_are_domains_of_the_units_libvirt(machine: Emulated, cafe: Cafe) -> None:
    """The last one here: it changes the surrogate's settings. The session is the upgrade's."""
    settings = "/etc/satchel/surrogate.toml"
    machine.run("sh", "-c", f"echo 'driver = \"libvirt\"' >> {settings}")
    machine.run("systemctl", "stop", SURROGATE)
    machine.run("systemctl", "start", SURROGATE)
    is_up(machine, SURROGATE)
    log = machine.run("journalctl", "--no-pager", "-o", "cat", "-u", SURROGATE)
    assert "machines are domains of libvirt" in log
    cafe.write()
    cafe.catch_up()
    listed = machine.run("env", "-u", "XDG_RUNTIME_DIR", *LISTED, user=SURROGATE)
    assert listed.startswith(f"satchel-{SERVICE}-")
    assert len(cafe.guests()) == 1
