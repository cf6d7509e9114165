# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of Satchel: what every floor above may name. Standard library only.

- `ids`: the identities (block, chunk, chunk reference, checkpoint, replica, operation number)
- `errors`: the roots of the one exception tree, with exit codes and wire codes
- `settings`: a TOML file read into a frozen dataclass
- `paths`: where data, configuration and sockets of a program live (XDG)
- `process`: processes that outlive the one that started them
- `readiness`: waiting until something can be read
- `rooms`: where the processes of one machine run
- `progress`: how a long step tells a program what it has done
- `spans`: what was done when, for traces
- `ticks`: moments that beats of all programs have in common
- `moments`: when a version of a thing was made
- `names`: names that become file names, URLs and host names
- `retention`: which versions of a thing to keep
- `files`: small files that are never seen half-written
- `record_file`: files that grow by records, and are read again after a crash
- `backlog`: what a peer has asked and nobody has answered yet
- `typed`: what JSON carried, as annotations say
- `deferred`: packages whose modules are imported when something of them is first used
"""

__all__ = [
    "backlog",
    "deferred",
    "errors",
    "files",
    "ids",
    "moments",
    "names",
    "paths",
    "process",
    "progress",
    "readiness",
    "record_file",
    "retention",
    "rooms",
    "settings",
    "spans",
    "ticks",
    "toml_lines",
    "typed",
]
