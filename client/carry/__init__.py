# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A carried service in use: one replica leads, programs have streams to it, home has copies.

- leader: the replica that executes, at home or at a trusted surrogate (client.places)
- copy: a checkpoint that home makes of a delta; it is behind the leader by so many seconds
- delta_shipper: deltas on their way home, in the background (`shipping`)
- move: the leader hands over to a replica that stands by (client.moves.handing)
- fall-back: the leader is lost, and home goes on from its newest copy (`runner`)
"""

from client.carry.runner import CarryRunner

__all__ = ["CarryRunner"]
