# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The first steps in a run's namespaces: a program of its own, which imports nothing of ours. Its
order is its one argument, JSON:

    channel  descriptor of the run's socket, which gets the sockets that are made here
    mounts   pairs: what lies at which place from now on
    account  [user, group] to be again, of who is root in these namespaces only; else null
    words    the program
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

OWN_ADDRESS = "198.19.0.1"
"""From which connections begin; beside those that names get."""

RULES = """
table ip satchel {
  chain out {
    type nat hook output priority -100;
    udp dport 53 redirect to :53
    ip daddr 127.0.0.0/8 return
    meta l4proto tcp redirect to :%d
  }
}
"""


def main(argument: str) -> None:
    """Becomes the program. Raises OSError, CalledProcessError."""
    order = json.loads(argument)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "address", "add", OWN_ADDRESS, "dev", "lo")
    _run("ip", "route", "add", "default", "dev", "lo", "src", OWN_ADDRESS)
    names.bind(("127.0.0.1", 53))
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    _run("nft", "-f", "-", text=RULES % listener.getsockname()[1])
    for source, place in order["mounts"]:
        _run("mount", "--bind", source, place)
    with socket.socket(fileno=order["channel"]) as channel:
        socket.send_fds(channel, [b"made"], [listener.fileno(), names.fileno()])
        channel.recv(1)
    words = order["words"]
    if order["account"] is not None:
        user, group = order["account"]
        words = ["unshare", "--user", f"--map-user={user}", f"--map-group={group}", "--", *words]
    try:
        os.execvp(words[0], words)
    except OSError as error:
        print(f"satchel: cannot run {words[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def _run(*argv: str, text: str = "") -> None:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"satchel: {' '.join(argv)}: {done.stderr.strip()}", file=sys.stderr)
        sys.exit(125)


if __name__ == "__main__":
    main(sys.argv[1])
