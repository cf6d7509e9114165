# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate as its operator gets it, on a host whose KVM works. tests/kvm has it run there, with
SATCHEL_HANDED, a folder in which are `store`, that of a home; `manifest`, of a checkpoint of
`notes` that was emulated; and `answers`, what that machine answered to the first operations after
it."""

import json
import os
from pathlib import Path

import flask
import pytest

from chunkstore import Store
from hypervisor import QemuDriver
from images import Manifest
from sandbox import Cell, left
from satchel.ids import ReplicaId
from surrogate import Host, SurrogateSettings
from tests.replica.notebook import notebook
from wire import CreateReplica, SourceAddress, chunk_routes, install_errors, serve

pytestmark = [pytest.mark.kvm, pytest.mark.machine]

HANDED = Path(os.environ["SATCHEL_HANDED"])


def check_shut_in(folder: Path) -> None:
    """Its machine runs under KVM, in a cell, as nobody whom the host knows."""
    cell = left(folder)
    assert isinstance(cell, Cell)
    process = Path("/proc", (folder / "qemu.pid").read_text().strip())
    assert (process / "ns/pid").readlink() == Path(f"/proc/{cell.pid}/ns/pid").readlink()
    assert process.stat().st_uid >= 0x70000000
    assert any("kvm-vcpu" in str(one.readlink()) for one in (process / "fd").iterdir())
    status = dict(line.split(":\t") for line in (process / "status").read_text().splitlines())
    assert (status["CapEff"], status["NoNewPrivs"], status["Seccomp"]) == ("0" * 16, "1", "2")


def test_a_surrogate_as_it_comes_runs_a_service_that_was_emulated(short_path: Path) -> None:
    settings = SurrogateSettings(data=short_path / "data", run=short_path / "run", name="spot")
    manifest = Manifest.from_bytes((HANDED / "manifest").read_bytes())
    answers = json.loads((HANDED / "answers").read_text())
    store = Store.open_to_read(HANDED / "store")
    host = Host(settings, QemuDriver())
    app = flask.Flask("source")
    install_errors(app)
    app.register_blueprint(chunk_routes(store.records))
    with serve(app, settings.forwarded / "h", threads=4, max_body=1 << 20) as server:
        try:
            assert host.status().runs == ("kvm",)
            source = SourceAddress("home", str(server.path))
            asked = CreateReplica(ReplicaId("r1"), "notes", manifest.to_json(), (source,))
            hosted = host.create(asked)
            assert hosted.replica.spec.accelerator == "kvm"
            hosted.wait_started(900.0)
            assert hosted.status().state == "ready", hosted.status().error
            operations = [notebook(number) for number in range(1, len(answers) + 1)]
            check_shut_in(hosted.replica.run_dir)
            given = [answer.payload.hex() for answer in hosted.answer(operations)]
            assert given == answers
        finally:
            host.close()
            store.close()
