# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Real replicas of `notes`, resumed in a test's own stores."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from chunkstore import Store
from hypervisor import Driver, QemuDriver
from replica import MachineSnapshot, Replica
from sandbox import Cells
from satchel.ids import ReplicaId
from tests.machines import NotesCheckpoint
from volumes import Resolver, local_resolver


@contextlib.contextmanager
def resumed(
    notes: NotesCheckpoint,
    store: Store,
    run_dir: Path,
    frozen: MachineSnapshot | None = None,
    resolver: Resolver | None = None,
    driver: Driver | None = None,
) -> Iterator[Replica]:
    """A replica that goes on from `frozen`, by default from the shared checkpoint.
    driver: what makes its machine, without a cell; by default QEMU's, in one."""
    replica = Replica(
        ReplicaId(f"notes-{run_dir.name}"),
        notes.spec,
        store,
        driver or QemuDriver(),
        run_dir,
        adapter=notes.manifest.contract.adapter,
        stateful=True,
        cells=None if driver else Cells(),
    )
    try:
        replica.resume(frozen or notes.frozen, resolver or local_resolver(store), store.read)
        yield replica
    finally:
        replica.stop()
    assert not run_dir.exists()


def shell(replica: Replica, script: str) -> str:
    """The output of a shell script in the guest, which must succeed."""
    status, output = replica.run(["/bin/sh", "-c", script], 120.0)
    assert status == 0, output
    return output.decode()


def asked(replica: Replica) -> str:
    """What a service with both `needs` finds just then: the time in nanoseconds, random bytes, a
    UUID."""
    return shell(replica, _ASKING)


_ASKING = """
export SATCHEL_MOMENT=/run/satchel/moment SATCHEL_STANDS='time randomness'
export LD_PRELOAD=/usr/lib/satchel/moment.so
python3 -c 'import os, time, uuid; print(time.time_ns(), os.urandom(9).hex(), uuid.uuid4())'
"""


def check_file_system(replica: Replica) -> None:
    """e2fsck finds nothing in the guest's file system, which is read-only from here on.

    By SysRq: the service has its database open for writing.
    """
    shell(replica, f"sync; echo u > /proc/sysrq-trigger; {_UNTIL_READ_ONLY}")
    shell(replica, "/usr/sbin/e2fsck -fn /dev/vda")


_UNTIL_READ_ONLY = "until grep -q '^/dev/[^ ]* / ext4 ro' /proc/mounts; do sleep 0.05; done"
