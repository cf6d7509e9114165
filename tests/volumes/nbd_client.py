# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""As much of an NBD client as the tests need: one request at a time, at any offset."""

import contextlib
import errno
import socket
import struct
from pathlib import Path
from typing import Self

OPT_GO = 7
REP_ACK = 1
REP_INFO = 3
INFO_EXPORT = 0

CMD_READ, CMD_WRITE, CMD_DISC, CMD_FLUSH, CMD_TRIM, CMD_ZEROES = 0, 1, 2, 3, 4, 6
FLAG_FUA = 1
FLAG_READ_ONLY = 2


class Refused(Exception):
    """The server has no such export."""


class NbdClient:
    """A connection to one export. Errors of requests are OSError with the server's errno."""

    def __init__(self, path: Path, export: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(60)
        try:
            self._socket.connect(str(path))
            self._negotiate(export.encode())
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._send(CMD_DISC, 0, 0, 0)
        self._socket.close()

    def read(self, offset: int, length: int) -> bytes:
        self._send(CMD_READ, 0, offset, length)
        self._reply()
        return self._receive(length)

    def write(self, offset: int, data: bytes, *, fua: bool = False) -> None:
        self._send(CMD_WRITE, FLAG_FUA if fua else 0, offset, len(data), data)
        self._reply()

    def zero(self, offset: int, length: int) -> None:
        self._send(CMD_ZEROES, 0, offset, length)
        self._reply()

    def trim(self, offset: int, length: int) -> None:
        self._send(CMD_TRIM, 0, offset, length)
        self._reply()

    def flush(self) -> None:
        self._send(CMD_FLUSH, 0, 0, 0)
        self._reply()

    @property
    def read_only(self) -> bool:
        return bool(self.flags & FLAG_READ_ONLY)

    def _negotiate(self, export: bytes) -> None:
        assert self._receive(16) == b"NBDMAGICIHAVEOPT"
        self._receive(2)
        request = struct.pack(">I", len(export)) + export + struct.pack(">H", 0)
        self._socket.sendall(
            struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", OPT_GO, len(request)) + request
        )
        while True:
            _, _, kind, length = struct.unpack(">QIII", self._receive(20))
            data = self._receive(length)
            if kind == REP_ACK:
                return
            if kind != REP_INFO:
                raise Refused(data.decode(errors="replace"))
            if struct.unpack(">H", data[:2])[0] == INFO_EXPORT:
                _, self.size, self.flags = struct.unpack(">HQH", data)

    def _send(self, command: int, flags: int, offset: int, length: int, data: bytes = b"") -> None:
        header = struct.pack(">IHHQQI", 0x25609513, flags, command, 7, offset, length)
        self._socket.sendall(header + data)

    def _reply(self) -> None:
        magic, error, _ = struct.unpack(">IIQ", self._receive(16))
        assert magic == 0x67446698
        if error:
            raise OSError(error, errno.errorcode.get(error, "unknown"))

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            piece = self._socket.recv(length - len(data))
            if not piece:
                raise ConnectionResetError("the server has closed the connection")
            data += piece
        return bytes(data)
