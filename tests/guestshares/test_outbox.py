# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What goes out does so whole and in order, also to one who takes it slowly or not at all."""

import socket
import struct
import threading

from guestshares.line import Pieces
from guestshares.outbox import Outbox

MESSAGES = 400
SIZES = (10, 300_000, 70, 5_000)


def test_all_comes_whole_and_in_order_of_each_sender() -> None:
    near, far = socket.socketpair()
    outbox, sent = Outbox(near, "test"), []

    def say(sender: int) -> None:
        for number in range(MESSAGES // 4):
            size = SIZES[(number + sender) % len(SIZES)]
            message = struct.pack("<III", size, sender, number) + bytes([sender]) * size
            outbox.send(message, lambda: sent.append(sender))

    threads = [threading.Thread(target=say, args=(sender,)) for sender in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # nobody waits, although nobody has taken anything
    pieces, seen = Pieces(far), [0] * 4
    for _ in range(MESSAGES):
        size, sender, number = struct.unpack("<III", pieces.take(12))
        assert number == seen[sender]
        assert pieces.take(size) == bytes([sender]) * size
        seen[sender] += 1
    outbox.close()
    assert sorted(sent) == sorted(sender for sender in range(4) for _ in range(MESSAGES // 4))
    near.close()
    far.close()


def test_what_nobody_takes_is_dropped_and_counts_as_sent() -> None:
    near, far = socket.socketpair()
    outbox, sent = Outbox(near, "test"), []
    outbox.send(bytes(1 << 22), lambda: sent.append(1))
    assert not sent
    far.close()
    outbox.send(b"more", lambda: sent.append(2))
    near.shutdown(socket.SHUT_RDWR)
    outbox.close()
    assert sent == [1, 2]
    outbox.send(b"late", lambda: sent.append(3))
    assert sent == [1, 2]
    near.close()
