# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A running machine of a service, its volumes, and the number of its last operation.

Used by a home server for its first-class replicas and by surrogates for second-class ones; what
differs between them is who fetches a missing chunk, and that is an argument.

- attachment: the volumes of one machine, served over NBD, its RAM mapped through a mount
- replica: the machine behind its agent; boot, resume, execute, checkpoint, stop
- door: where clients get to the streams of a machine
- guest clock: set again after a carried guest stood still
- delta: what has changed since an earlier freeze, whole; made of a machine that goes on, or is held
- folder: where a running replica's processes leave what is needed to end them; swept when its
  owner has died
- working set: the blocks that a resumed machine touches first, with their content, in frames
- profile: what a service's machines touch, and what after what, learnt over generations (pure)
- profile format: its bytes
- early answers: what a service says of its answers before they are whole
- long answer: one that is taken away piece by piece
- phase: what a machine is at, as the profile tells it apart
- recorder: watches what a machine touches, for the profile
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from replica.attachment import RAM
    from replica.delta import Delta, DeltaInvalid
    from replica.delta import apply as apply_delta
    from replica.delta import between as delta_between
    from replica.delta import decode as decode_delta
    from replica.delta import encode as encode_delta
    from replica.delta_maker import DeltaMaker, MadeDelta, tables_of
    from replica.door import StreamDoor
    from replica.folder import read_console, sweep
    from replica.long_answers import (
        PIECE_BYTES,
        PIECE_SECONDS,
        LongAnswerBuffer,
        LongAnswers,
        PieceGone,
    )
    from replica.profile import (
        AWAY,
        IDLE,
        RESUME,
        RUN_BLOCKS,
        STEADY,
        Access,
        Profile,
        RunKey,
        Temperature,
        first_of,
        observed,
        run_of,
    )
    from replica.profile_format import ProfileInvalid
    from replica.profile_format import decode as decode_profile
    from replica.profile_format import encode as encode_profile
    from replica.recorder import Recorder
    from replica.replica import BOOT_SECONDS, Replica
    from replica.states import (
        MachineSnapshot,
        ReplicaFailed,
        ReplicaState,
        WrongGuest,
        WrongReplicaState,
        was_stopped,
    )
    from replica.working_set import BLOCK_LIMIT as WORKING_SET_LIMIT
    from replica.working_set import (
        HASTY_PRESET,
        Frame,
        Run,
        WorkingSetInvalid,
        WorkingSetVersion,
        directory_size,
        names_extent,
    )
    from replica.working_set import decode as decode_working_set
    from replica.working_set import encode as encode_working_set
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "AWAY",
    "BOOT_SECONDS",
    "HASTY_PRESET",
    "IDLE",
    "PIECE_BYTES",
    "PIECE_SECONDS",
    "RAM",
    "RESUME",
    "RUN_BLOCKS",
    "STEADY",
    "WORKING_SET_LIMIT",
    "Access",
    "Delta",
    "DeltaInvalid",
    "DeltaMaker",
    "Frame",
    "LongAnswerBuffer",
    "LongAnswers",
    "MachineSnapshot",
    "MadeDelta",
    "PieceGone",
    "Profile",
    "ProfileInvalid",
    "Recorder",
    "Replica",
    "ReplicaFailed",
    "ReplicaState",
    "Run",
    "RunKey",
    "StreamDoor",
    "Temperature",
    "WorkingSetInvalid",
    "WorkingSetVersion",
    "WrongGuest",
    "WrongReplicaState",
    "apply_delta",
    "decode_delta",
    "decode_profile",
    "decode_working_set",
    "delta_between",
    "directory_size",
    "encode_delta",
    "encode_profile",
    "encode_working_set",
    "first_of",
    "names_extent",
    "observed",
    "read_console",
    "run_of",
    "sweep",
    "tables_of",
    "was_stopped",
]
