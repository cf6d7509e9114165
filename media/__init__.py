# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Portable media: a stick or a disk with packs, checkpoints and logs, which nobody trusts.

- medium: a device with a folder `satchel`, known by its UUID wherever it is mounted
- generation: the checkpoints that one commit made whole; a medium keeps two
- part: how much of a checkpoint a medium has that is too small for all of it
- seal: the key under which everything on a medium is encrypted; a medium without one is in clear
- apart: a medium in clear is parsed in a process of its own that can do nothing else
- relocation: the chunks that a resume reads first come to lie in one piece
- refresher: brings a newer checkpoint of home's onto a medium that a session uses

The engine that reads and writes packs on media is in `chunkstore`. Home decides what a medium gets
(`homeserver.media`), a client when it gets it (`client.medium`).
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from media.apart import ConfinedMedium, ReaderGone
    from media.eject import EjectReport, eject_media
    from media.generations import (
        SignedManifest,
        WriteReport,
        checkpoints_on,
        commit_checkpoints,
        oldest_on,
        parts_written,
        read_manifest,
        roots_on,
        write_checkpoints,
    )
    from media.medium import Generation, Layout, Media, MediaCheckpoint, MediaReport, media_uuid
    from media.mounts import (
        MediaBusy,
        MediaCloned,
        MediaInClear,
        await_media,
        find_media,
        mount_table,
        mounted_media,
        require_sealed,
        sealed_media,
    )
    from media.parts import Part, PartPlan, found_part, lack_of, part_of
    from media.refreshing import Fetch, Refresher
    from media.relocation import RelocationReport, read_first, relocate
    from media.seal import (
        MEDIA_KEY_NAMESPACE,
        MediaRevoked,
        MediaSealed,
        NewSeal,
        PreviousSeal,
        Seal,
        SealKeys,
        Sign,
        new_seal,
    )
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "MEDIA_KEY_NAMESPACE",
    "ConfinedMedium",
    "EjectReport",
    "Fetch",
    "Generation",
    "Layout",
    "Media",
    "MediaBusy",
    "MediaCheckpoint",
    "MediaCloned",
    "MediaInClear",
    "MediaReport",
    "MediaRevoked",
    "MediaSealed",
    "NewSeal",
    "Part",
    "PartPlan",
    "PreviousSeal",
    "ReaderGone",
    "Refresher",
    "RelocationReport",
    "Seal",
    "SealKeys",
    "Sign",
    "SignedManifest",
    "WriteReport",
    "await_media",
    "checkpoints_on",
    "commit_checkpoints",
    "eject_media",
    "find_media",
    "found_part",
    "lack_of",
    "media_uuid",
    "mount_table",
    "mounted_media",
    "new_seal",
    "oldest_on",
    "part_of",
    "parts_written",
    "read_first",
    "read_manifest",
    "relocate",
    "require_sealed",
    "roots_on",
    "sealed_media",
    "write_checkpoints",
]
