# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where machines come from, and what a frozen one is called.

- recipe: what a service's guest is made of: Debian packages, files, a command, an adapter
- layer: what Debian contributes to images, kept so that the next build needs no network
- image: a bootable disk with its kernel and initial RAM disk, made from a recipe on this host
- container: an image of a container, whose layers take the place of Debian packages
- whole disk: one that starts by itself, such as a cloud image; systemd in it keeps the agent alive
- target: what a person asks to have built
- manifest: what a checkpoint consists of, in canonical bytes that the owner signs
- generation: which checkpoints media have, and how newer ones come onto them
- relocation: that what a resume reads first lies in one piece
- tier: by what a service gets time and randomness from the log
- apart: a medium in clear, parsed in a process of its own that can do nothing else
- raw: any disk image as a raw file

Process 1 of a guest is Satchel's agent. There is no init system, no timer, no journal: less runs in
the background, so fewer pages change between checkpoints, and a boot takes seconds and is always
the same. What the agent starts is plain Debian.
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from images.apart import MediaApart, ReaderGone
    from images.builder import build
    from images.built import BuiltImage, ImageDamaged, ImageNotBuilt
    from images.containers import ContainerInvalid, ContainerRefused
    from images.debian import release_files
    from images.disks import DiskRefused
    from images.generations import (
        Signed,
        Written,
        checkpoints_on,
        commit_checkpoints,
        oldest_on,
        parts_written,
        read_manifest,
        roots_on,
        write_checkpoints,
    )
    from images.initrd import KernelFiles, debian_kernel
    from images.layers import LayerInvalid
    from images.manifest import (
        SIGNATURE_NAMESPACE,
        Freshness,
        Manifest,
        ManifestInvalid,
        ManifestUnsupported,
        blob_root,
    )
    from images.parts import Meant, Part, found_part, lack_of, part_of
    from images.raw import DiskImageInvalid, raw_view
    from images.recipe import (
        MEMORY_MIB,
        VCPUS,
        Recipe,
        RecipeInvalid,
        RecipeNotFound,
        Rehearsal,
        ServedPort,
        Tier,
        recipes,
    )
    from images.relocation import Relocated, read_first, relocate
    from images.sources import SourcesMissing
    from images.targets import changed, target
    from images.tiers import TIERS, tiered
    from images.utterances import PHRASES, speak
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "MEMORY_MIB",
    "PHRASES",
    "SIGNATURE_NAMESPACE",
    "TIERS",
    "VCPUS",
    "BuiltImage",
    "ContainerInvalid",
    "ContainerRefused",
    "DiskImageInvalid",
    "DiskRefused",
    "Freshness",
    "ImageDamaged",
    "ImageNotBuilt",
    "KernelFiles",
    "LayerInvalid",
    "Manifest",
    "ManifestInvalid",
    "ManifestUnsupported",
    "Meant",
    "MediaApart",
    "Part",
    "ReaderGone",
    "Recipe",
    "RecipeInvalid",
    "RecipeNotFound",
    "Rehearsal",
    "Relocated",
    "ServedPort",
    "Signed",
    "SourcesMissing",
    "Tier",
    "Written",
    "blob_root",
    "build",
    "changed",
    "checkpoints_on",
    "commit_checkpoints",
    "debian_kernel",
    "found_part",
    "lack_of",
    "oldest_on",
    "part_of",
    "parts_written",
    "raw_view",
    "read_first",
    "read_manifest",
    "recipes",
    "release_files",
    "relocate",
    "roots_on",
    "speak",
    "target",
    "tiered",
    "write_checkpoints",
]
