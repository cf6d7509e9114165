# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Where machines come from, and what a frozen one is called.

- recipe: what a service's guest is made of: Debian packages, files, a command, an adapter
- layer: what Debian contributes to images, kept so that the next build needs no network
- image: a bootable disk with its kernel and initial RAM disk, made from a recipe on this host
- container: an image of a container, whose layers take the place of Debian packages
- whole disk: one that starts by itself, such as a cloud image; systemd in it keeps the agent alive
- target: what a person asks to have built
- contract: who executes a service's operations, and which ports programs may reach
- manifest: what a checkpoint consists of, in canonical bytes that the owner signs
- tier: by what a service gets time and randomness from the log
- raw: any disk image as a raw file

Process 1 of a guest is Satchel's agent. There is no init system, no timer, no journal: less runs in
the background, so fewer pages change between checkpoints, and a boot takes seconds and is always
the same. What the agent starts is plain Debian.
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from images.builder import build
    from images.built import BuiltImage, ImageDamaged, ImageNotBuilt
    from images.containers import ContainerInvalid, ContainerRefused
    from images.contract import CARRY, REPLAY, Contract, ContractSpec, EgressRule, ServedPort
    from images.debian import release_files
    from images.disks import DiskRefused
    from images.fields import ManifestInvalid
    from images.initrd import KernelFiles, debian_kernel
    from images.layers import LayerInvalid
    from images.manifest import (
        SIGNATURE_NAMESPACE,
        Freshness,
        Manifest,
        ManifestUnsupported,
        blob_root,
    )
    from images.raw import DiskImageInvalid, raw_view
    from images.recipe import (
        MEMORY_MIB,
        VCPUS,
        Recipe,
        RecipeInvalid,
        RecipeNotFound,
        Rehearsal,
        Tier,
        recipes,
    )
    from images.sources import SourcesMissing
    from images.targets import changed, target
    from images.tiers import TIERS, decided, tiered
    from images.utterances import PHRASES, speak
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "CARRY",
    "MEMORY_MIB",
    "PHRASES",
    "REPLAY",
    "SIGNATURE_NAMESPACE",
    "TIERS",
    "VCPUS",
    "BuiltImage",
    "ContainerInvalid",
    "ContainerRefused",
    "Contract",
    "ContractSpec",
    "DiskImageInvalid",
    "DiskRefused",
    "EgressRule",
    "Freshness",
    "ImageDamaged",
    "ImageNotBuilt",
    "KernelFiles",
    "LayerInvalid",
    "Manifest",
    "ManifestInvalid",
    "ManifestUnsupported",
    "Recipe",
    "RecipeInvalid",
    "RecipeNotFound",
    "Rehearsal",
    "ServedPort",
    "SourcesMissing",
    "Tier",
    "blob_root",
    "build",
    "changed",
    "debian_kernel",
    "decided",
    "raw_view",
    "recipes",
    "release_files",
    "speak",
    "target",
    "tiered",
]
