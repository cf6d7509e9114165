# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A server that keeps a process, and so what OpenSSL has of randomness in it:
`tls_server.py PORT CERTIFICATE`; and, without a certificate, who begins to talk to it and prints
the random bytes in its first answer, in hex digits."""

import contextlib
import socket
import ssl
import sys
import threading

RANDOM = slice(11, 43)  # of the record with a ServerHello: RFC 8446, 4.1.3 and 5.1


def serve(port: int, certificate: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", port))

    def answer() -> None:
        while True:
            connection, _ = listener.accept()
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:  # who asks leaves after the first answer
                connection.close()

    # One thread answers everybody, and has one state of OpenSSL's generator.
    answering = threading.Thread(target=answer)
    answering.start()
    answering.join()


def ask(port: int) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    heard, told = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = context.wrap_bio(heard, told)
    with contextlib.suppress(ssl.SSLWantReadError):
        talk.do_handshake()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(told.read())
        answer = b""
        while len(answer) < RANDOM.stop:
            answer += connection.recv(4096)
    print(answer[RANDOM].hex())


if __name__ == "__main__":
    if len(sys.argv) > 2:
        serve(int(sys.argv[1]), sys.argv[2])
    else:
        ask(int(sys.argv[1]))
