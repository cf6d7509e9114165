# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Operations: logged, executed in a guest in order and at most once, replayed.

- operation: a request with a number, a time and a seed; its record is the same in the log and on
  the wire
- log: the operations since a checkpoint, in segment files on media and at home
- segment: one file of a log, named for its first operation
- splitting: where the logs of two clients parted
- torn end: what a crash leaves of an append; cut off when the log is opened
- agent: the static program that is PID 1 of every guest and executes operations
- channel: the host's end of the line to an agent
- frame: one message on that line
- adapter: what turns requests of a protocol into operations and makes responses comparable
- raw, normalised: a response as the service sent it, and as replicas compare it
- stream: bytes between a program and a TCP port of a carried service's guest, which outlive the
  carrier, the connection that reaches the guest at the moment
- guard: what looks at a stream's bytes before the guest gets them, and may refuse them
- diagnosis: where two replicas of one log part, and why
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from replay import adapters
    from replay.adapters import Adapter
    from replay.batch import (
        Answered,
        answers_in,
        decode_operations,
        decode_piece,
        encode_answers,
        encode_operations,
        encode_piece,
        encode_responses,
        responses_in,
    )
    from replay.chain import KeyRing, LogKey, OperationsDoubtful, kept_keys
    from replay.channel import (
        AgentChannel,
        AgentFailed,
        AgentGone,
        AgentStatus,
        AgentTimeout,
        AlreadyExecuted,
        OperationConflict,
        ServiceNotReady,
        ServiceTimeout,
    )
    from replay.diagnosis import AnswerDifference, Cause, examine, explain
    from replay.durability import Durability
    from replay.guards import Guard, StreamRefused
    from replay.log import Log, LogBusy, LogState, OperationsCut, TornEnd
    from replay.operations import (
        MAX_PAYLOAD,
        AnswerPreview,
        LongAnswerStart,
        Operation,
        OperationGap,
        RecordInvalid,
        Response,
    )
    from replay.program import AgentMissing, agent_program
    from replay.samples import ReadDigest, Sample, Samples, split_samples
    from replay.segments import (
        LogCorrupt,
        LogFull,
        LogGone,
        LogReadOnly,
        LogUnsupported,
        logs_in,
        remove_log,
        scan_segment,
    )
    from replay.splitting import drop_from, dropped_logs, first_difference
    from replay.stream_records import EGRESS_PORT, StreamRecordInvalid
    from replay.streams import StreamCounts, StreamRelay
    from replay.uploads import (
        BROKEN_OFF,
        PieceFlag,
        first_piece,
        piece_flags,
        upload_pieces,
    )
else:
    __getattr__ = deferred(__name__)

__all__ = [
    "BROKEN_OFF",
    "EGRESS_PORT",
    "MAX_PAYLOAD",
    "Adapter",
    "AgentChannel",
    "AgentFailed",
    "AgentGone",
    "AgentMissing",
    "AgentStatus",
    "AgentTimeout",
    "AlreadyExecuted",
    "AnswerDifference",
    "AnswerPreview",
    "Answered",
    "Cause",
    "Durability",
    "Guard",
    "KeyRing",
    "Log",
    "LogBusy",
    "LogCorrupt",
    "LogFull",
    "LogGone",
    "LogKey",
    "LogReadOnly",
    "LogState",
    "LogUnsupported",
    "LongAnswerStart",
    "Operation",
    "OperationConflict",
    "OperationGap",
    "OperationsCut",
    "OperationsDoubtful",
    "PieceFlag",
    "ReadDigest",
    "RecordInvalid",
    "Response",
    "Sample",
    "Samples",
    "ServiceNotReady",
    "ServiceTimeout",
    "StreamCounts",
    "StreamRecordInvalid",
    "StreamRefused",
    "StreamRelay",
    "TornEnd",
    "adapters",
    "agent_program",
    "answers_in",
    "decode_operations",
    "decode_piece",
    "drop_from",
    "dropped_logs",
    "encode_answers",
    "encode_operations",
    "encode_piece",
    "encode_responses",
    "examine",
    "explain",
    "first_difference",
    "first_piece",
    "kept_keys",
    "logs_in",
    "piece_flags",
    "remove_log",
    "responses_in",
    "scan_segment",
    "split_samples",
    "upload_pieces",
]
