# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Images of containers: fetched by skopeo or built by buildah, read here.

skopeo makes a plain folder of what any of its transports names, with every digest checked and the
architecture chosen; registries are those of the user's containers.conf. A folder with a Dockerfile
is built by buildah without a daemon, in a chroot. The layers are read by `images.layers` and not
unpacked by umoci: as an ordinary user that loses owners and capabilities, which the guest needs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import logging
import posixpath
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from images.fields import PORT_LIMIT
from images.layers import LayerInvalid, Layers
from images.recipe import TRANSPORTS, Recipe
from images.tree import Tree
from sandbox import build_cell
from satchel.errors import UnavailableError, UnsupportedError, UsageError

logger = logging.getLogger(__name__)

DOCKERFILES = ("Dockerfile", "Containerfile")

ARCHITECTURE = "amd64"

GUESTS_OWN = ("/dev", "/proc", "/sys")
"""Folders in which the guest has its own files, not those of the image."""

_EXPOSED = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?(?:/([A-Za-z]+))?")
_VARIABLE_LIMIT = 128 << 10
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_JSON_LIMIT = 8 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_TAIL = 600


class ContainerInvalid(LayerInvalid):
    """What describes an image of a container is not what that is."""


class ContainerRefused(UnavailableError):
    """skopeo or buildah did not deliver the image."""


@dataclass(frozen=True)
class ContainerSettings:
    """How an image is run, in the words of its `config`.

    refused: the values that cannot be used, each with the reason.
    """

    command: tuple[str, ...] = ()
    user: str = ""
    environment: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    volumes: tuple[str, ...] = ()
    workdir: str = ""
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Container:
    """An image in a folder, as skopeo's `dir:` has it. key: its manifest's SHA-256."""

    key: str
    layers: tuple[Path, ...]
    settings: ContainerSettings

    def tree(self, scratch: Path, size: int, mounted: tuple[str, ...]) -> Tree:
        """Its files. The arguments and errors are those of `images.layers.Layers`; UnsupportedError
        for a layer that is compressed in another way than by gzip or zstd."""
        layers = Layers(scratch, size, mounted)
        for path in self.layers:
            with _unpacked(path) as stream:
                layers.apply(stream, path.name[:12])
        return layers.tree

    def completed(self, recipe: Recipe) -> Recipe:
        """The recipe with what the image says where the recipe says nothing. Logs what is refused.

        Raises RecipeInvalid, and UsageError for an image that runs nothing.
        """
        said = self.settings
        default = {field.name: field.default for field in dataclasses.fields(Recipe)}
        if not recipe.command and not said.command:
            raise UsageError(
                f"the image of {recipe.name} runs nothing by itself",
                why="it has neither an entry point nor a command",
                fix="give one: --set command=...",
            )
        for why in said.refused:
            logger.warning("the image of %s: %s", recipe.name, why)
        changes: dict[str, Any] = {
            "command": f"exec {shlex.join(said.command)}",
            "user": said.user,
            "workdir": said.workdir,
            "port": said.ports[0] if said.ports else 0,
            "state": said.volumes,
        }
        for key, value in changes.items():
            if not value or getattr(recipe, key) != default[key]:
                changes[key] = getattr(recipe, key)
        changes["environment"] = (*said.environment, *recipe.environment)
        return dataclasses.replace(recipe, **changes)


def is_reference(text: str) -> bool:
    """Whether it names an image rather than a folder or a recipe."""
    return text.startswith(TRANSPORTS)


def dockerfile(folder: Path) -> Path | None:
    """What buildah would build that folder by."""
    found = (folder / name for name in DOCKERFILES)
    return next((path for path in found if path.is_file()), None)


def fetch(reference: str, beside: Path, scratch: Path, storage: Path) -> Container:
    """Bring an image into `scratch`, which is there and empty.

    reference: as skopeo takes it, or a folder with a Dockerfile; a path in it begins at `beside`.
    storage: where buildah keeps what the next build may use. Raises UnsupportedError without the
    program that it takes or for another architecture, ContainerRefused, ContainerInvalid.
    """
    folder = scratch / "image"
    if is_reference(reference):
        argv = ["skopeo", "copy", "--quiet", "--override-arch", ARCHITECTURE]
        _run([*argv, reference, f"dir:{folder}"], beside)
    else:
        _build(beside / reference, folder, scratch, storage)
    return _read(folder)


def _build(context: Path, target: Path, scratch: Path, storage: Path) -> None:
    file = dockerfile(context)
    if file is None:
        raise UsageError(f"nothing to build in {context}", why="it has no Dockerfile")
    tool = ["buildah", "--root", str(storage), "--runroot", str(scratch / "run")]
    tool += ["--storage-driver", "overlay"]
    made, temporary = scratch / "id", scratch / "temporary"
    for folder in (storage, temporary, target):
        folder.mkdir(parents=True, exist_ok=True)
    argv = ["bud", "--isolation", "chroot", "--layers", "--quiet", "--iidfile", str(made)]
    argv += ["--file", str(file.resolve()), "."]

    def confined(*command: str) -> None:
        writable = [storage.resolve(), scratch.resolve()]
        full = [*tool, *command]
        cell = build_cell(full, context=context.resolve(), writable=writable, temporary=temporary)
        _run(cell, context)

    confined(*argv)
    confined("push", "--quiet", made.read_text().strip(), f"dir:{target}")


def _run(argv: Sequence[str], folder: Path) -> None:
    program = "buildah" if "buildah" in argv else argv[0]
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}") from error
        package = {"bwrap": "bubblewrap"}.get(argv[0], argv[0])
        raise UnsupportedError(
            f"no {argv[0]} on this host", fix=f"install the Debian package {package}"
        ) from error
    if done.returncode != 0:
        why = f"its last words:\n{done.stderr.strip()[-_TAIL:]}\n"
        raise ContainerRefused(f"{program} failed with exit status {done.returncode}", why=why)


def _read(folder: Path) -> Container:
    try:
        manifest = _json(folder / "manifest.json")
        config = _json(_blob(folder, manifest["config"]))
        layers = tuple(_blob(folder, layer) for layer in manifest["layers"])
        settings = _settings(config.get("config") or {})
        system = f"{config.get('os')}/{config.get('architecture')}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"[:300]
        raise ContainerInvalid("cannot read the image's description", why=why) from error
    if system != f"linux/{ARCHITECTURE}":
        raise UnsupportedError(f"the image is for {system[:40]}", why="guests are linux/amd64")
    return Container(manifest["config"]["digest"][7:], layers, settings)


def _settings(config: Mapping[str, Any]) -> ContainerSettings:
    command = [*_words(config.get("Entrypoint")), *_words(config.get("Cmd"))]
    refused: list[str] = []
    variables = [word for word in _words(config.get("Env")) if _is_variable(word, refused)]
    ports = {_port(str(name), refused) for name in config.get("ExposedPorts") or {}} - {0}
    volumes = [_word(path) for path in config.get("Volumes") or {}]
    workdir = _word(config.get("WorkingDir") or "")
    return ContainerSettings(
        command=tuple(command),
        user=_word(config.get("User") or ""),
        environment=tuple(variables),
        ports=tuple(sorted(ports)),
        volumes=tuple(sorted({_path(path) for path in volumes if _is_volume(path, refused)})),
        workdir=_path(workdir) if workdir else "",
        refused=tuple(refused),
    )


def _is_variable(word: str, refused: list[str]) -> bool:
    name, equals, _ = word.partition("=")
    if not name or not equals:
        refused.append(f"ENV {word[:80]!r} is not NAME=VALUE and is left out")
    elif len(word.encode()) >= _VARIABLE_LIMIT:
        why = f"longer than the {_VARIABLE_LIMIT} bytes that Linux passes on"
        refused.append(f"ENV {name[:80]!r} is {why}, and is left out")
    else:
        return True
    return False


def _port(text: str, refused: list[str]) -> int:
    """The first TCP port of what an image exposes, 0 of none: `80`, `80/tcp`, `80-82/tcp`."""
    found = _EXPOSED.fullmatch(text)
    if found and (found[3] or "tcp").lower() != "tcp":
        return 0
    if found and 1 <= int(found[1]) <= int(found[2] or found[1]) <= PORT_LIMIT:
        return int(found[1])
    refused.append(f"EXPOSE {text[:80]!r} is neither a port nor a range of ports, and is left out")
    return 0


def _is_volume(path: str, refused: list[str]) -> bool:
    place = _path(path)
    if place != "/" and f"/{place.split('/')[1]}" not in GUESTS_OWN:
        return True
    refused.append(f"VOLUME {path[:80]!r} is the guest's own and is left out")
    return False


def _path(text: str) -> str:
    """Return an absolute path without `..`; a relative one begins at the root folder."""
    return posixpath.normpath(f"/{text.lstrip('/')}")


def _words(value: Any) -> list[str]:
    if not isinstance(value, list | None):
        raise TypeError(f"{value!r:.80} is not a list of words")
    return [_word(word) for word in value or []]


def _word(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError(f"{value!r:.80} is not a word")
    value.encode()  # half a surrogate pair is no character
    return value


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _JSON_LIMIT:
        raise ValueError(f"{path.name[:20]} is too large")
    return cast("dict[str, Any]", json.loads(path.read_bytes()))


def _blob(folder: Path, descriptor: Mapping[str, Any]) -> Path:
    found = _DIGEST.fullmatch(descriptor["digest"])
    if not found or not (path := folder / found[1]).is_file():
        raise ValueError(f"there is no blob {descriptor['digest']!r:.80}")
    return path


@contextlib.contextmanager
def _unpacked(layer: Path) -> Iterator[IO[bytes]]:
    """The archive that a layer is, told by its first bytes."""
    with layer.open("rb") as file:
        head = file.read(4)
        file.seek(0)
        if head.startswith(_GZIP):
            with gzip.open(file) as stream:
                yield cast("IO[bytes]", stream)
        elif head.startswith(_ZSTD):
            with _zstd(file) as stream:
                yield stream
        else:
            yield file


@contextlib.contextmanager
def _zstd(file: IO[bytes]) -> Iterator[IO[bytes]]:
    try:
        process = subprocess.Popen(["zstd", "-dcq"], stdin=file, stdout=subprocess.PIPE)
    except FileNotFoundError as error:
        raise UnsupportedError("no zstd on this host", fix="install zstd") from error
    assert process.stdout
    try:
        yield process.stdout
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
