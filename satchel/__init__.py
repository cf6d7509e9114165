# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of Satchel: what every floor above may name. Standard library only.

- `ids`: the identities (block, chunk, chunk reference, checkpoint, replica, operation number)
- `errors`: the roots of the one exception tree, with exit codes and wire codes
- `settings`: a TOML file read into a frozen dataclass
- `paths`: where data, configuration and sockets of a program live (XDG)
- `process`: processes that outlive the one that started them
- `readiness`: waiting until something can be read
- `confinement`: where the processes of one machine run
- `polling`: how often a thread checks what it is not notified of
- `progress`: how a long step tells a program what it has done
- `spans`: what was done when, for traces
- `aligned_timers`: moments that beats of all programs have in common
- `targets`: what HTTP requests name, and in which folder that is
- `timestamps`: when a version of a thing was made
- `names`: names that become file names, URLs and host names
- `retention`: which versions of a thing to keep
- `files`: small files that are never seen half-written
- `record_file`: files that grow by records, and are read again after a crash
- `inflight`: what a peer has asked and nobody has answered yet
- `typed`: what JSON carried, as annotations say
- `deferred`: packages whose modules are imported when something of them is first used
"""

__all__ = [
    "aligned_timers",
    "confinement",
    "deferred",
    "errors",
    "files",
    "ids",
    "inflight",
    "names",
    "paths",
    "polling",
    "process",
    "progress",
    "readiness",
    "record_file",
    "retention",
    "settings",
    "spans",
    "targets",
    "timestamps",
    "toml_lines",
    "typed",
]
