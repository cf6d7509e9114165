# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""From a recipe to a bootable image, in layers of which each is kept until its input changes.

    layers/kernel-KEY/{vmlinuz,initrd,busybox}
                                          from Debian, one for all images; kernel-shares-KEY for
                                          those of services with shares
    layers/base-KEY.tar                   the base's packages, from Debian
    layers/NAME-KEY.tar                   the service's packages on top of them, from Debian
    layers/containers                     what buildah keeps of Dockerfiles for the next build
    NAME/{disk,vmlinuz,initrd}-KEY        that tar, the recipes' files and the agent; no network
    NAME/image.json                       names these three; written last

Every file is written beside its place and renamed. What a build replaces is removed when the new
image is complete; programs that have the old one open keep it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from images import debian
from images.built import BuiltImage, ImageDamaged, ImageNotBuilt, remove_others, write_manifest
from images.containers import GUESTS_OWN, Container, fetch
from images.debian import SOURCE_DATE_EPOCH
from images.disks import build_disk
from images.filesystem import write_ext4
from images.guest_files import GuestAccount, container_files
from images.initrd import INIT, MODULES, PACKAGES, SHARES_MODULES, kernel_files
from images.recipe import PRELOAD_PATH, RESEED_PATH, SHARES_PATH, Recipe
from images.sources import PackageSources, host_sources
from images.tree import (
    Entry,
    Kind,
    Tree,
    base_first,
    file_entry,
    put,
    read_digests,
    read_tar,
    resolved,
    with_folders,
)
from sandbox import Cells
from satchel.errors import CapacityError, NotFoundError, UsageError
from satchel.files import sync_folder
from satchel.progress import Progress, silent

BUILDER_VERSION = 2
"""Raised when the same recipe gives another image."""

AGENT_PATH = "/usr/bin/satchel-agent"

PRELOADS = {PRELOAD_PATH: "satchel-moment.so", RESEED_PATH: "satchel-reseed.so"}
"""What programs of the guest preload, by path in it: its file beside the agent on this host."""

CMDLINE = " ".join(
    (
        "console=ttyS0 quiet panic=-1",
        "root=/dev/vda rw rootfstype=ext4 rootflags=noatime",
        "init_on_free=1 transparent_hugepage=never sysctl.vm.compaction_proactiveness=0 nokaslr",
        "no_timer_check mitigations=off nowatchdog audit=0",
        f"init={AGENT_PATH}",
    )
)
"""The kernel's command line of every image; docs/formats/image.md says why each word is there."""

FREE_BYTES = 2 << 30
"""What a build wants free; it uses about half."""

_MOUNT_POINTS = ("/dev", "/proc", "/run", "/sys", "/tmp")


def build(
    recipe: Recipe,
    folder: Path,
    *,
    agent: Path,
    layers: Path | None = None,
    fresh: bool = False,
    cells: Cells | None = None,
    progress: Progress = silent,
) -> BuiltImage:
    """The image of `recipe` in `folder`, built now unless it is there and up to date.

    agent: the program that becomes the guest's process 1. layers: where what comes from Debian is
    kept for the next build; by default `layers` beside `folder`. fresh: ask Debian again for newer
    packages. cells: in which a whole disk is read, if it is. progress: in steps. One build at a
    time per layers folder; a second one waits.
    Raises RecipeNotFound, SourcesMissing, UnsupportedError, UnavailableError, CapacityError, and of
    a container what `images.containers` raises. After an error or an interrupt, the old image is
    there, and nothing else.
    """
    layers = layers or folder.parent / "layers"
    layers.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    if recipe.disk:
        with _locked(layers):
            disk_image = build_disk(recipe, folder, agent=agent, cells=cells)
        progress(1, 1)
        return disk_image
    with _locked(layers), _container(recipe, layers) as container:
        if container:
            recipe = container.completed(recipe)
        work = _Build(recipe, folder, agent, layers, fresh, _Steps(progress), container)
        if not fresh and (image := work.existing()):
            return image
        return work.run()


@dataclass
class _Steps:
    """Counts steps up to a total that is an estimate, and never beyond it."""

    progress: Progress
    total: int = 3 * debian.STEPS + 4
    done: int = 0

    def step(self, count: int = 1) -> None:
        self.done = min(self.done + count, self.total)
        self.progress(self.done, self.total)


@dataclass
class _Build:
    """One build. Every path that it makes before the last step is temporary or a layer."""

    recipe: Recipe
    folder: Path
    agent: Path
    layers: Path
    fresh: bool
    steps: _Steps
    container: Container | None = None
    base: Recipe | None = field(init=False)
    release: str = field(init=False)  # of the packages; empty: this host's
    preloads: dict[str, Path] = field(init=False)
    _sources: PackageSources | None = None

    def __post_init__(self) -> None:
        self.preloads = {path: self.agent.with_name(name) for path, name in PRELOADS.items()}
        for path in (self.agent, *self.preloads.values()):
            if not path.is_file():
                what = "guest agent" if path == self.agent else "library for guests"
                raise NotFoundError(f"no {what} at {path}", fix="build the native parts")
        if not self.recipe.command:
            raise UsageError(f"recipe {self.recipe.name} makes no service", why="it has no command")
        self.base = self.recipe.base()
        wanted = self.recipe.debian
        self.release = wanted if wanted and wanted != self._host().codename else ""

    def key(self) -> str:
        """A hash of everything that the image is made from, except for Debian's packages."""
        parts = [str(BUILDER_VERSION), CMDLINE, INIT, self.recipe.content_key()]
        if self.base:
            parts.append(self.base.content_key())
        if self.container:
            parts.append(self.container.key)
        native = (self.agent, *self.preloads.values())
        parts += [hashlib.sha256(path.read_bytes()).hexdigest() for path in native]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def existing(self) -> BuiltImage | None:
        try:
            image = BuiltImage.load(self.folder)
        except (ImageNotBuilt, ImageDamaged):
            return None
        if image.key != self.key():
            return None
        self.steps.step(self.steps.total)
        return image

    def run(self) -> BuiltImage:
        _require_space(self.layers)
        kernel = self._kernel_layer()
        if self.container:
            self.steps.step(2 * debian.STEPS)
            return self._image(kernel, None, None)
        base_tar = self._base_layer()
        service_tar = self._service_layer(base_tar)
        return self._image(kernel, base_tar, service_tar)

    def _kernel_layer(self) -> Path:
        modules = SHARES_MODULES if self.recipe.shares else MODULES
        key = _hash(str(BUILDER_VERSION), INIT, *modules, *PACKAGES, "busybox")
        name = "kernel-shares" if self.recipe.shares else "kernel"
        layer = self.layers / f"{name}-{key[:12]}"
        if self._kept(layer):
            return layer
        with _scratch(self.layers) as scratch:
            self._bootstrap(scratch / "packages.tar", self._host(), PACKAGES, variant="extract")
            files = kernel_files(scratch / "packages.tar", modules)
            made = scratch / "kernel"
            made.mkdir()
            (made / "vmlinuz").write_bytes(files.vmlinuz)
            (made / "initrd").write_bytes(files.initrd)
            (made / "busybox").write_bytes(files.busybox)
            (made / "busybox").chmod(0o755)
            self._replace(layer, made)
        return layer

    def _base_layer(self) -> Path | None:
        if not self.base:
            return None
        layer = self._layer(self.base.name, self.base.packages_key())
        self._tar_layer(layer, self.base.packages, None)
        return layer

    def _service_layer(self, base_tar: Path | None) -> Path:
        if base_tar and not self.recipe.packages:
            self.steps.step(debian.STEPS)
            return base_tar
        base_key = self.base.packages_key() if self.base else ""
        key = _hash(self.recipe.packages_key(), base_key)
        layer = self._layer(self.recipe.name, key)
        self._tar_layer(layer, self.recipe.packages, base_tar)
        return layer

    def _layer(self, name: str, key: str) -> Path:
        words = (name, self.release, key[:12]) if self.release else (name, key[:12])
        return self.layers / f"{'-'.join(words)}.tar"

    def _tar_layer(self, layer: Path, packages: Sequence[str], over: Path | None) -> None:
        if self._kept(layer):
            return
        with _scratch(self.layers) as scratch:
            sources = self._host().of(self.release) if self.release else self._host()
            self._bootstrap(scratch / "layer.tar", sources, packages, over=over)
            self._replace(layer, scratch / "layer.tar")

    def _kept(self, layer: Path) -> bool:
        if self.fresh or not layer.exists():
            return False
        self.steps.step(debian.STEPS)
        return True

    def _replace(self, layer: Path, made: Path) -> None:
        """Puts a layer in its place; older ones of its name are gone."""
        name = layer.name.rpartition("-")[0]
        for old in self.layers.iterdir():
            if old.name.rpartition("-")[0] == name:
                _remove(old)
        made.rename(layer)

    def _bootstrap(
        self,
        target: Path,
        sources: PackageSources,
        packages: Sequence[str],
        *,
        variant: str = "essential",
        over: Path | None = None,
    ) -> None:
        step = self.steps.step
        debian.bootstrap(target, sources, packages, variant=variant, over=over, step=step)

    def _host(self) -> PackageSources:
        self._sources = self._sources or host_sources()
        return self._sources

    def _image(self, kernel: Path, base_tar: Path | None, service_tar: Path | None) -> BuiltImage:
        key = self.key()
        image = BuiltImage(
            recipe=self.recipe,
            disk=self.folder / f"disk-{key[:12]}",
            kernel=self.folder / f"vmlinuz-{key[:12]}",
            initrd=self.folder / f"initrd-{key[:12]}",
            cmdline=self.recipe.cmdline(CMDLINE),
            key=key,
        )
        with _scratch(self.folder) as scratch:
            (scratch / "contents").mkdir()
            if service_tar:
                tree = self._packages(service_tar, scratch)
            else:
                tree = self._contained(kernel / "busybox", scratch)
            tree = self._tree(tree, scratch)
            if service_tar:
                tree = base_first(tree, read_digests(base_tar) if base_tar else {})
            self.steps.step()
            size = self.recipe.disk_mib << 20
            write_ext4(scratch / "disk", size, tree, scratch, SOURCE_DATE_EPOCH)
            self.steps.step()
            for name in ("vmlinuz", "initrd"):
                shutil.copyfile(kernel / name, scratch / name)
            for path in image.files:
                (scratch / path.name.split("-")[0]).replace(path)
        sync_folder(self.folder)
        write_manifest(self.folder, image)
        remove_others(self.folder, image)
        self.steps.step(self.steps.total)
        return BuiltImage.load(self.folder)

    def _packages(self, service_tar: Path, scratch: Path) -> Tree:
        exclude = (*(self.base.exclude if self.base else ()), *self.recipe.exclude)
        tree = read_tar(service_tar, scratch / "contents", (*exclude, *_MOUNT_POINTS))
        for guest_path, path in self.base.files() if self.base else ():
            put(tree, guest_path, file_entry(path, SOURCE_DATE_EPOCH))
        return tree

    def _contained(self, busybox: Path, scratch: Path) -> Tree:
        assert self.container
        left_out = (*self.recipe.exclude, *GUESTS_OWN)
        size = self.recipe.disk_mib << 20
        tree = self.container.tree(scratch / "contents", size, left_out)
        return container_files(tree, busybox, SOURCE_DATE_EPOCH)

    def _tree(self, tree: Tree, scratch: Path) -> Tree:
        """The same with what makes a guest of it, and with every folder that it takes."""
        now = SOURCE_DATE_EPOCH
        for guest_path, path in self.recipe.files():
            put(tree, guest_path, file_entry(path, now))
        put(tree, AGENT_PATH, Entry(Kind.FILE, content=self.agent, modified=now, digest=b"agent"))
        for guest_path, path in self.preloads.items():
            digest = path.name.encode()
            put(tree, guest_path, Entry(Kind.FILE, content=path, modified=now, digest=digest))
        user = GuestAccount.find(tree, self.recipe)
        for guest_path, text in (
            ("/etc/satchel/service", self.recipe.service_file(user.name, user.home)),
            ("/etc/hostname", f"{self.recipe.name}\n"),
            *_hosts(tree, self.recipe),
        ):
            content = scratch / guest_path.rsplit("/", 1)[1]
            content.write_text(text, encoding="utf-8")
            put(tree, guest_path, file_entry(content, now))
        for guest_path in self.recipe.state:
            self._folder(tree, guest_path, Entry(Kind.FOLDER, 0o750, user.uid, user.gid, now))
        shares = (SHARES_PATH,) if self.recipe.shares else ()
        for guest_path in (*_MOUNT_POINTS, *shares):
            if not (self.container and guest_path in ("/run", "/tmp") and guest_path in tree):
                tree[guest_path] = Entry(Kind.FOLDER, modified=now)
        if self.container:
            workdir = Entry(Kind.FOLDER, 0o755, user.uid, user.gid, now)
            self._folder(tree, self.recipe.workdir, workdir)
        return with_folders(tree, now)

    def _folder(self, tree: Tree, path: str, entry: Entry) -> None:
        """Add a folder of the service. A folder of the container's image stays, also after links.
        Raises UsageError if there is a file."""
        place = resolved(tree, path, last=True)
        if place == "/" or (self.container and any(place == m for m in _MOUNT_POINTS)):
            return
        old = tree.get(place)
        if old and old.kind is not Kind.FOLDER:
            raise UsageError(f"{path} is to be a folder of {self.recipe.name}", why="it is a file")
        if not (self.container and old):
            tree[place] = entry


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        raise CapacityError(
            f"not enough space to build an image in {folder}",
            why=f"{free >> 20} MiB are free, a build wants {FREE_BYTES >> 20}",
            fix="free some, or choose another folder",
        )


@contextlib.contextmanager
def _locked(layers: Path) -> Iterator[None]:
    """Waits for another build. The lock ends with the process, however it ends."""
    with (layers / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _container(recipe: Recipe, layers: Path) -> Iterator[Container | None]:
    """The container's image that the recipe names, for as long as the build takes."""
    if not recipe.container:
        yield None
        return
    _require_space(layers)
    with _scratch(layers, ".container-") as scratch:
        beside = recipe.folder or Path()
        yield fetch(recipe.container, beside, scratch, layers / "containers")


@contextlib.contextmanager
def _scratch(parent: Path, prefix: str = ".build-") -> Iterator[Path]:
    """A temporary folder on the file system of `parent`; those of builds that were killed go."""
    for stale in parent.glob(f"{prefix}*"):
        _remove(stale)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as folder:
        yield Path(folder)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _hosts(tree: Tree, recipe: Recipe) -> list[tuple[str, str]]:
    """The guest's /etc/hosts, of a recipe whose guest reaches something outside."""
    if not recipe.egress_hosts:
        return []
    there = tree.get(resolved(tree, "/etc/hosts", last=True))
    own = there.content.read_text() if there and there.content else "127.0.0.1 localhost\n"
    return [("/etc/hosts", own + recipe.hosts_file())]
