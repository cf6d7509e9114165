# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Recipes: what a service's image is made of, as a folder with `recipe.toml` and `files/`.

`files/` is laid over the Debian packages, owned by root, programs 0755 and the rest 0644. A recipe
extends one other at most: its packages and files come first, so images of one base share chunks.

The author of a recipe may be a stranger. So a recipe names only files of its own folder: a path or
a link that leads elsewhere would put a file of the builder into the image.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from images.contract import CARRY, REPLAY, ContractSpec, EgressRule, ServedPort
from images.fields import PORT_LIMIT
from images.utterances import speak
from satchel import settings
from satchel.errors import NotFoundError, UsageError
from satchel.names import NAME

SHIPPED = Path(__file__).resolve().parent / "recipes"
"""The recipes that come with Satchel."""

TRANSPORTS = ("oci:", "oci-archive:", "docker-archive:", "docker://", "dir:")
"""What a reference to an image of a container begins with, in skopeo's words."""

MOMENT_PATH = "/run/satchel/moment"
"""Where the guest's agent says which operation is under way: replay/agent/moment.h."""
PRELOAD_PATH = "/usr/lib/satchel/moment.so"
"""What gives a program time and randomness from there: replay/agent/preload.cc."""

Tier = Literal["preload", "notifier"]
WITHOUT_VDSO = "vdso=0"
"""On the kernel's command line where it asks the agent: without, programs find the time by
themselves."""

PORTS_LIMIT = 16
FRONTS = ("tcp", "http")
"""What a carried service's ports may be offered as."""

IDEMPOTENT_LIMIT = 64
EGRESS_LIMIT = 64
"""Destinations of one guest."""

BEHIND_SECONDS = (1, 86400)
"""How far the copies of a carried service may be behind."""

RESEED_PATH = "/usr/lib/satchel/reseed.so"
"""What gives OpenSSL in a carried service new randomness: replay/agent/reseed.cc."""

SHARES_PATH = "/satchel"
"""Where the shares are in a guest whose recipe asks for them."""

MEMORY_MIB = (64, 16 * 1024)
VCPUS = (1, 16)
DISK_MIB = (1024, 256 * 1024)

_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_USER = re.compile(r"[^:\n\0]+(:[^:\n\0]+)?")
_PATH = re.compile(r"/|(/[^/\0]+)+")
_TARGET = re.compile(r"/|(/[A-Za-z0-9_.+@-]+)+")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_NEED = re.compile(r"time|monotonic|randomness")
_ADDRESS = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_METHOD_PATH = re.compile(r"[A-Z]{1,20} /[!-$&-~]{0,200}")
_LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_OUTSIDE = re.compile(rf"{_LABEL}(\.{_LABEL})*:[0-9]{{1,5}}")
_VARIABLE = re.compile(r"[^=\0]+=[^\0]*")


class RecipeNotFound(NotFoundError):
    """No recipe has that name."""


class RecipeInvalid(UsageError):
    """The recipe is wrong. name: the recipe; key: the wrong key; place: its FILE:LINE, if it was
    read from a file."""

    def __init__(self, name: str, key: str, why: str, place: str = "") -> None:
        super().__init__(f"{place or f'recipe {name}'}: {key} is wrong", why=why)
        self.name = name
        self.key = key
        self.place = place


@dataclass(frozen=True)
class Rehearsal:
    """A request that a copy of a new checkpoint is sent, to learn which memory it touches first.

    The adapter makes an operation of it, of the parts that its protocol has a place for. body is
    text; where `speak` is given, the body is a WAV file of espeak-ng saying that.
    """

    method: str = "GET"
    path: str = "/"
    content_type: str = "application/json"
    body: str = ""
    speak: str = ""

    def payload(self) -> bytes:
        """The body's bytes. Raises UnsupportedError without espeak-ng."""
        return speak(self.speak) if self.speak else self.body.encode()


@dataclass(frozen=True)
class Recipe:
    """A recipe as it was read. In the file, keys have - for _. Raises RecipeInvalid.

    name:         also the guest's host name
    title:        one line for people
    extends:      the recipe whose packages, exclusions and files come first; a sibling folder, or
                  a shipped recipe
    container:    an image of a container that takes the place of packages: as skopeo names it, or
                  a folder with a Dockerfile; paths begin at the recipe's folder. What the image
                  says of how it is run counts where the recipe says nothing
    disk:         a whole disk, raw or qcow2, that starts by itself; its path begins at the recipe's
                  folder. It is carried, and what it runs is its own: no command, no packages
    firmware:     what starts that disk: `bios`, `uefi`, or `auto`: what the disk is made for
    user_data:    of that disk: a file, found likewise, that its cloud-init gets as user data
    packages:     Debian packages; what they depend on comes along, what they recommend does not
    debian:       the release that they are of, as `bookworm`; empty: this host's
    exclude:      paths that stay out of the image, with all that is below them
    memory_mib:   MiB of RAM that the service is measured to need
    vcpus:        processors that the guest sees
    accelerator:  what its machine runs under at home: `kvm`, `tcg` (emulation), or `auto`, KVM
                  where it works and else emulation
    portable:     whether a checkpoint of it goes on under another accelerator too; a machine that
                  does not tells the time faster under KVM
    disk_mib:     MiB of the disk as the guest sees it; on the host it is sparse
    command:      what the agent runs by /bin/sh -c and keeps alive; it listens once it is warm
    port:         the TCP port on 127.0.0.1 that takes operations
    user:         who runs it, a user of /etc/passwd, a number, or one of these, a colon and a group
    workdir:      where it runs
    environment:  NAME=VALUE
    needs:        what it must have from the log, as it would ask the machine for it. `time`: its
                  wall clock stands at the operation's time; `monotonic`: the other clocks stand as
                  well, so that its timers come due with operations only; `randomness`: what it
                  draws follows from the operation's seed
    tier:         by what it gets them. `preload`: by a library that is preloaded; `notifier`: the
                  kernel asks the agent, for programs that call the kernel themselves
    adapter_kind: what the port speaks, by the name of an adapter in `replay.adapters`
    stateful:     False: an operation's answer depends on that operation alone
    contract:     `replay`: each replica executes each operation; `carry`: one replica leads, which
                  need not be deterministic, and programs have streams to its ports; `auto`: carried
                  if it has a disk, ports, egress or websockets; replayed if it has needs or
                  shares; otherwise `service add` tries it
    behind:       of a carried service: the seconds by which its copies may be behind
    ports:        of a carried service; by default `port` alone, with the front `tcp`
    egress:       of a carried service: where its guest's connections to egress_hosts go out, at
                  `home` or at the `client`; a surrogate never has them
    egress_hosts: NAME:PORT or IPV4:PORT of what its guest may connect to; a name has to lead to a
                  public address there
    websockets:   whether programs open WebSockets to it: it is carried, and `port` has the front
                  `http` if the recipe has no ports
    idempotent:   METHOD PATH: HTTP requests at and below that path that may be sent twice, of ports
                  with the front `http`; they are sent again after a loss
    state:        folders that belong to `user`; their content is the service's state
    shares:       whether the owner's shares are below /satchel in the guest
    read_only:    HTTP paths at and below which GET and HEAD change nothing that an answer shows;
                  they may go to one replica only
    rehearsal:    typical requests, from which a checkpoint's working set is learned
    folder:       where the recipe was read; None for one that came with a built image
    """

    name: str = ""
    title: str = ""
    extends: str = ""
    container: str = ""
    disk: str = ""
    firmware: Literal["auto", "bios", "uefi"] = "auto"
    user_data: str = ""
    packages: tuple[str, ...] = ()
    debian: str = ""
    exclude: tuple[str, ...] = ()
    memory_mib: int = 256
    vcpus: int = 1
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    portable: bool = True
    disk_mib: int = 1024
    command: str = ""
    port: int = 8080
    user: str = "root"
    workdir: str = "/"
    environment: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    tier: Tier = "preload"
    adapter_kind: str = "http"
    stateful: bool = True
    contract: Literal["auto", "replay", "carry"] = "auto"
    behind: int = 30
    ports: tuple[ServedPort, ...] = ()
    egress: Literal["none", "home", "client"] = "none"
    egress_hosts: tuple[str, ...] = ()
    websockets: bool = False
    idempotent: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    shares: bool = False
    rehearsal: tuple[Rehearsal, ...] = ()
    folder: Path | None = None

    def __post_init__(self) -> None:
        for key, why in _faults(self):
            raise RecipeInvalid(self.name[:80], key, why)

    @classmethod
    def load(cls, folder: Path) -> Recipe:
        """Read the recipe in `folder`. Raises RecipeNotFound, SettingsError, RecipeInvalid."""
        path = folder / "recipe.toml"
        if not path.is_file():
            raise RecipeNotFound(f"no recipe at {folder}", why=f"there is no {path.name}")
        try:
            recipe = dataclasses.replace(settings.load(cls, path), folder=folder)
            if recipe.name != folder.name:
                raise RecipeInvalid(recipe.name[:80], "name", f"its folder is {folder.name}")
            for key, named in recipe._named():
                recipe._require_inside(key, named)
        except RecipeInvalid as error:
            place = settings.place(path, error.key)
            raise RecipeInvalid(error.name, error.key, error.why, place) from None
        return recipe

    @classmethod
    def find(cls, name: str) -> Recipe:
        """The shipped service recipe of that name, or RecipeNotFound."""
        known = [recipe.name for recipe in recipes()]
        if name not in known:
            fix = f"there are: {', '.join(known)}; or name a folder that has a recipe.toml"
            raise RecipeNotFound(f"no recipe {name[:80]!r}", fix=fix)
        return cls.load(SHIPPED / name)

    def base(self) -> Recipe | None:
        """The recipe that this one extends: the folder beside it, else a shipped one."""
        if not self.extends or self.folder is None:
            return None
        beside = self.folder.parent / self.extends
        shipped = SHIPPED / self.extends
        if beside.is_symlink():
            raise RecipeInvalid(self.name, "extends", f"{beside} is a link")
        base = Recipe.load(shipped if shipped.is_dir() and not beside.is_dir() else beside)
        if base.extends:
            raise RecipeInvalid(self.name, "extends", f"{base.name} itself extends {base.extends}")
        return base

    def files(self) -> Iterator[tuple[str, Path]]:
        """What `files/` holds, by path in the guest and in the order of these paths.

        Raises RecipeInvalid for a link that leaves the folder, or leads to a folder or to nothing.
        """
        if self.folder is None:
            return
        root = self.folder / "files"
        for path in (root, *sorted(root.rglob("*"))):
            if path.is_symlink():
                self._require_inside("files", path)
                if not path.is_file():
                    raise RecipeInvalid(self.name, "files", f"{path} is a link to no file")
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"/{path.relative_to(root)}", path

    def _named(self) -> Iterator[tuple[str, Path]]:
        """The paths that the recipe's keys have, by key."""
        assert self.folder is not None
        transport = next((t for t in TRANSPORTS if self.container.startswith(t)), "")
        place = self.container.removeprefix(transport)
        if transport == "docker://":
            if not _DIGEST.search(place):
                why = "a tag may name another image tomorrow; end it with @sha256:DIGEST"
                raise RecipeInvalid(self.name, "container", why)
            place = ""
        elif transport not in ("", "dir:"):
            place = place.partition(":")[0]
        for key, text in (("container", place), ("disk", self.disk), ("user-data", self.user_data)):
            if text:
                yield key, self.folder / text

    def _require_inside(self, key: str, path: Path) -> None:
        """Raises RecipeInvalid for a path that leads out of the recipe's folder."""
        assert self.folder is not None
        if not path.resolve().is_relative_to(self.folder.resolve()):
            why = f"{path} leads out of the recipe's folder; copy what it leads to into it"
            raise RecipeInvalid(self.name, key, why)

    def packages_key(self) -> str:
        """A hash of what Debian packages the image has; 64 hex digits."""
        return hashlib.sha256("\n".join(sorted(self.packages)).encode()).hexdigest()

    def content_key(self) -> str:
        """A hash of everything that the folder says; 64 hex digits."""
        key = hashlib.sha256(repr(dataclasses.replace(self, folder=None)).encode())
        for guest_path, path in self.files():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            program = bool(path.stat().st_mode & 0o100)
            key.update(f"{guest_path}\0{program}\0{content}\n".encode())
        return key.hexdigest()

    @property
    def carried(self) -> bool:
        """Whether one replica leads. False for a service that was not tried: see `undecided`."""
        needed = self.disk or self.ports or self.egress_hosts or self.websockets
        return self.contract == CARRY or (self.contract == "auto" and bool(needed))

    @property
    def undecided(self) -> bool:
        """Whether only a trial can tell its contract: a carried service has no needs or shares."""
        return self.contract == "auto" and not (self.carried or self.needs or self.shares)

    @property
    def logged(self) -> bool:
        """Whether its operations are logged."""
        return self.stateful and not self.carried

    def served(self) -> tuple[ServedPort, ...]:
        """The ports of a carried service; of others, none."""
        if not self.carried:
            return ()
        return self.ports or (ServedPort("http" if self.websockets else "tcp", self.port),)

    @property
    def ready_port(self) -> int:
        """The port that listens once the service is warm."""
        return self.served()[0].port if self.disk else self.port

    def outside(self) -> list[tuple[str, str, int]]:
        """Of each of egress_hosts its name, the address by which the guest has it, and its port. A
        name has one of the guest's loopback network."""
        found: dict[str, str] = {}
        places = []
        for text in self.egress_hosts:
            host, _, port = text.rpartition(":")
            number = len(found) + 1
            own = host if _ADDRESS.fullmatch(host) else f"127.88.{number >> 8}.{number & 255}"
            places.append((host, found.setdefault(host, own), int(port)))
        return places

    def hosts_file(self) -> str:
        """Return the lines of the guest's /etc/hosts for them."""
        names = {host: at for host, at, _ in self.outside() if host != at}
        return "".join(f"{at} {host}\n" for host, at in names.items())

    def contract_spec(self) -> ContractSpec:
        """Return the contract for the manifest."""
        hosts = self.egress_hosts
        return ContractSpec(
            kind=CARRY if self.carried else REPLAY,
            adapter=self.adapter_kind,
            port=self.port,
            stateful=self.logged,
            state=self.state,
            read_only=self.read_only,
            behind=self.behind if self.carried else 0,
            ports=self.served(),
            egress=EgressRule(self.egress, hosts) if hosts and self.egress != "none" else None,
            idempotent=self.idempotent,
        )

    def streams_line(self) -> str:
        """To which ports the agent opens streams, in its words; empty for a replayed service."""
        ports = " ".join(str(port.port) for port in self.served())
        return f"streams={ports}" if ports else ""

    def given(self) -> tuple[str, ...]:
        """Return the lines of the guest's description by which a service gets time and randomness
        from the log or, if it is carried, new randomness after a resume."""
        if self.carried and not self.disk:
            return (f"environment=LD_PRELOAD={RESEED_PATH}",)
        words = " ".join(self.needs)
        if not words:
            return ()
        if self.tier == "notifier":
            return (f"asked={words}",)
        pairs = (f"LD_PRELOAD={PRELOAD_PATH}", f"SATCHEL_STANDS={words}")
        return tuple(f"environment={pair}" for pair in pairs)

    def cmdline(self, words: str) -> str:
        """The kernel's command line of which `words` are the same for every recipe."""
        asked = self.needs and self.tier == "notifier" and WITHOUT_VDSO not in words.split()
        return f"{words} {WITHOUT_VDSO}" if asked else words

    def service_file(self, account: str = "", home: str = "") -> str:
        """The guest's /etc/satchel/service, which its agent reads. account: who runs it, in the
        agent's words; home: that one's, where the agent cannot tell."""
        lines = [f"command={self.command}", f"port={self.ready_port}"]
        lines += [f"user={account or self.user}"]
        lines += [f"environment=HOME={home}"] if home else []
        lines += [f"workdir={self.workdir}", f"moment={MOMENT_PATH}"]
        if self.shares:
            lines += [f"shares={SHARES_PATH}"]
        if streams := self.streams_line():
            lines += [streams]
        if self.egress_hosts:
            lines += [f"egress={' '.join(f'{at}:{port}' for _, at, port in self.outside())}"]
        lines += self.given()
        lines += [f"environment={pair}" for pair in self.environment]
        return "".join(f"{_escaped(line)}\n" for line in lines)

    def to_json(self) -> dict[str, Any]:
        """The recipe without its folder, in JSON types."""
        fields = dataclasses.asdict(dataclasses.replace(self, folder=None))
        del fields["folder"]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Recipe:
        """The recipe of a built image. Raises RecipeInvalid, SettingsError for other fields."""
        return settings.from_table(cls, value, Path("recipe"))


def _escaped(line: str) -> str:
    """A line of /etc/satchel/service: replay/agent/service.h."""
    if "\n" not in line:
        return line
    return "\\" + line.replace("\\", "\\\\").replace("\n", "\\n")


def recipes() -> list[Recipe]:
    """The shipped recipes that make a service, by name."""
    found = [Recipe.load(path.parent) for path in sorted(SHIPPED.glob("*/recipe.toml"))]
    return [recipe for recipe in found if recipe.command]


def _carry_faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Faults of what only a carried service has."""
    yield from _port_of_carried_faults(recipe)
    if recipe.carried and (recipe.needs or recipe.shares):
        yield (
            "contract",
            "a carried service has neither needs nor shares",
        )
    low, high = BEHIND_SECONDS
    if not low <= recipe.behind <= high:
        yield "behind", f"{recipe.behind} is not between {low} and {high}"
    yield from _egress_faults(recipe)
    if recipe.idempotent and not any(port.front == "http" for port in recipe.served()):
        yield "idempotent", 'it needs contract = "carry" and a port with the front http'
    if len(recipe.idempotent) > IDEMPOTENT_LIMIT:
        yield "idempotent", f"they are more than {IDEMPOTENT_LIMIT}"
    for text in recipe.idempotent:
        if not _METHOD_PATH.fullmatch(text) or "/.." in text:
            yield "idempotent", f"{text[:80]!r} is not METHOD PATH"


def _port_of_carried_faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    for key in ("ports", "websockets", "egress_hosts"):
        if getattr(recipe, key) and not recipe.carried:
            yield key.replace("_", "-"), 'a service with them is carried: contract = "carry"'
    if len(recipe.ports) > PORTS_LIMIT:
        yield "ports", f"they are more than {PORTS_LIMIT}"
    for number, port in enumerate(recipe.ports, 1):
        yield from _port_faults(f"ports[{number}]", port, recipe.ports[: number - 1])


def _egress_faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    if recipe.egress != "none" and not recipe.egress_hosts:
        yield "egress", "it needs egress-hosts, a list of HOST:PORT"
    if recipe.egress == "none" and recipe.egress_hosts:
        yield "egress-hosts", 'they need egress = "home" or "client"'
    if len(recipe.egress_hosts) > EGRESS_LIMIT:
        yield "egress-hosts", f"they are more than {EGRESS_LIMIT}"
    for text in recipe.egress_hosts:
        host, _, port = text.rpartition(":")
        if not _OUTSIDE.fullmatch(text) or len(text) > 253 or not 1 <= int(port) <= PORT_LIMIT:
            yield "egress-hosts", f"{text[:80]!r} is not NAME:PORT or IPV4:PORT"
        elif _ADDRESS.fullmatch(host) and any(int(part) > 255 for part in host.split(".")):
            yield "egress-hosts", f"{host} is not an address"
    if len(set(recipe.egress_hosts)) < len(recipe.egress_hosts):
        yield "egress-hosts", "one stands twice"


def _port_faults(
    key: str, port: ServedPort, before: Sequence[ServedPort]
) -> Iterator[tuple[str, str]]:
    if port.front not in FRONTS:
        yield f"{key}.front", f"there is no front {port.front[:80]!r}: {', '.join(FRONTS)}"
    if not 1 <= port.port <= PORT_LIMIT:
        yield f"{key}.port", f"{port.port} is not between 1 and {PORT_LIMIT}"
    if not 0 <= port.local <= PORT_LIMIT:
        yield f"{key}.local", f"{port.local} is not between 0 and {PORT_LIMIT}"
    if port.port in {other.port for other in before}:
        yield f"{key}.port", f"{port.port} stands twice"
    if port.local and port.local in {other.local for other in before}:
        yield f"{key}.local", f"{port.local} stands twice"


def _container_faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    if recipe.container and (recipe.packages or recipe.extends):
        yield "container", "it takes the place of packages and extends"
    if "\n" in recipe.container or recipe.container.startswith("-"):
        yield "container", f"{recipe.container[:80]!r} is malformed"


def _disk_faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Faults of a recipe of a whole disk, and of what only such a one has."""
    for key, text in (("disk", recipe.disk), ("user-data", recipe.user_data)):
        if "\n" in text or "\0" in text:
            yield key, "it is not a path"
    if not recipe.disk:
        if recipe.user_data or recipe.firmware != "auto":
            yield "user-data" if recipe.user_data else "firmware", "it is of a whole disk: disk"
        return
    if not recipe.carried:
        yield "contract", 'a whole disk is carried: contract = "carry"'
    for key in ("command", "container", "extends", "packages", "exclude", "environment"):
        if getattr(recipe, key):
            yield key, "what runs on a whole disk is the disk's own"


def _is_plain(command: str) -> bool:
    """Whether it is `exec` and words that have no meaning for a shell."""
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return command == f"exec {shlex.join(words[1:])}"


def _faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield from (*_carry_faults(recipe), *_container_faults(recipe), *_disk_faults(recipe))
    if not NAME.fullmatch(recipe.name):
        yield "name", f"{recipe.name[:80]!r} is not a name of a-z, 0-9 and -"
    if recipe.extends and not NAME.fullmatch(recipe.extends):
        yield "extends", f"{recipe.extends[:80]!r} is not the name of a recipe"
    for key, text in (("title", recipe.title), ("command", recipe.command)):
        if "\n" in text and not (key == "command" and _is_plain(text)):
            yield key, "it has more than one line"
    for key, value, low, high in (
        ("port", recipe.port, 1, PORT_LIMIT),
        ("memory-mib", recipe.memory_mib, *MEMORY_MIB),
        ("vcpus", recipe.vcpus, *VCPUS),
        ("disk-mib", recipe.disk_mib, *DISK_MIB),
    ):
        if not low <= value <= high:
            yield key, f"{value} is not between {low} and {high}"
    for key, values, pattern in (
        ("packages", recipe.packages, _PACKAGE),
        ("debian", filter(None, (recipe.debian,)), NAME),
        ("user", (recipe.user,), _USER),
        ("adapter-kind", (recipe.adapter_kind,), NAME),
        ("workdir", (recipe.workdir,), _PATH),
        ("exclude", recipe.exclude, _PATH),
        ("state", recipe.state, _PATH),
        ("read-only", recipe.read_only, _TARGET),
        ("environment", recipe.environment, _VARIABLE),
        ("needs", recipe.needs, _NEED),
    ):
        for text in values:
            if not pattern.fullmatch(text) or (text[0] == "/" and ".." in text.split("/")):
                yield key, f"{text[:80]!r} is malformed"
