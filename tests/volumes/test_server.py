# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The nbdkit process: started, failed, adopted, stopped; and nothing left of it."""

import concurrent.futures
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from chunkstore import Store, TableRoot
from satchel.errors import ConflictError
from satchel.ids import BLOCK_SIZE
from satchel.names import BadName
from tests.needs import requires
from tests.volumes.conftest import Attach
from tests.volumes.nbd_client import NbdClient
from volumes import (
    BadPath,
    ServerFailed,
    SocketInUse,
    Volume,
    VolumeServer,
    create_volume,
    local_resolver,
    open_volume,
    serve_stored,
)

pytestmark = requires("nbdkit")

DAEMON = """
import sys, time
from pathlib import Path
from chunkstore import Store, TableRoot
from volumes import VolumeServer, create_volume, local_resolver

store = Store.open(Path(sys.argv[1]))
run_dir = Path(sys.argv[2])
root = store.import_file(Path(sys.argv[3]))
volume = create_volume(run_dir, "disk0", root)
VolumeServer.start(run_dir, store.packs_path, [volume], local_resolver(store))
print("ready", flush=True)
time.sleep(600)
"""


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_stop_leaves_nothing(attach: Attach) -> None:
    attachment = attach()
    server = attachment.server
    with attachment.connect() as client:
        client.write(0, b"dirty")
        server.stop(remove=True)
    assert not Path(f"/proc/{server.pid}").exists()
    assert not server.alive()
    assert names(server.run_dir) == {"nbdkit.log"}
    server.stop()


def test_stop_without_remove_keeps_the_overlay(attach: Attach) -> None:
    attachment = attach()
    attachment.server.stop()
    kept = {"nbdkit.log", "disk0.map", "disk0.map.places", "disk0.overlay"}
    assert names(attachment.server.run_dir) == kept


def test_stop_while_a_read_waits(attach: Attach) -> None:
    asked, go_on, gone_on = threading.Event(), threading.Event(), threading.Event()

    def stuck(volume: Volume, first: int, count: int) -> None:
        asked.set()
        go_on.wait(60)
        gone_on.set()

    attachment = attach(resolver=stuck)
    client = attachment.connect()
    failures: list[OSError] = []

    def read() -> None:
        try:
            client.read(0, 1)
        except OSError as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert asked.wait(30)
    attachment.server.stop(remove=True)
    assert not gone_on.is_set(), "it waited for the read"
    go_on.set()
    reader.join(30)
    assert failures
    client.close()


def test_nbdkit_is_its_own_session(attach: Attach) -> None:
    pid = attach().server.pid
    assert os.getsid(pid) == pid


def test_nbdkit_outlives_the_thread_that_started_it(attach: Attach, image: bytes) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        attachment = pool.submit(attach).result()
    time.sleep(0.2)
    with attachment.connect() as client:
        assert client.read(0, 9) == image[:9]


def test_several_volumes_one_process(store: Store, root: TableRoot, short_path: Path) -> None:
    volumes = [create_volume(short_path, name, root) for name in ("ram", "disk0", "disk1")]
    resolver = local_resolver(store)
    server = VolumeServer.start(short_path, store.packs_path, volumes, resolver)
    try:
        for index, name in enumerate(("ram", "disk0", "disk1")):
            with NbdClient(server.socket, name) as client:
                client.write(0, bytes([index]) * BLOCK_SIZE)
        for index, name in enumerate(("ram", "disk0", "disk1")):
            with NbdClient(server.socket, name) as client:
                assert client.read(0, BLOCK_SIZE) == bytes([index]) * BLOCK_SIZE
    finally:
        server.stop(remove=True)


def test_failed_start_says_why_and_leaves_nothing(
    store: Store, root: TableRoot, short_path: Path
) -> None:
    volume = create_volume(short_path, "disk0", root)
    volume.overlay.unlink()
    with pytest.raises(ServerFailed, match=r"(?s)exit status 1.*disk0\.overlay"):
        VolumeServer.start(short_path, store.packs_path, [volume], local_resolver(store))
    assert names(short_path) == {"nbdkit.log", "disk0.map", "disk0.map.places"}


def test_map_of_another_volume_is_refused(store: Store, root: TableRoot, short_path: Path) -> None:
    volume = create_volume(short_path, "disk0", root)
    volume.root = TableRoot(ref=root.ref, size=root.size + BLOCK_SIZE)
    with pytest.raises(ServerFailed, match="1500 blocks"):
        VolumeServer.start(short_path, store.packs_path, [volume], local_resolver(store))


def test_paths_that_cannot_be_used(store: Store, root: TableRoot, short_path: Path) -> None:
    packs, resolver = store.packs_path, local_resolver(store)
    colon = short_path / "a:b"
    colon.mkdir()
    volume = create_volume(colon, "disk0", root)
    with pytest.raises(BadPath, match="colon"):
        VolumeServer.start(colon, packs, [volume], resolver)
    deep = short_path / ("d" * 100)
    deep.mkdir()
    with pytest.raises(BadPath, match="107"):
        VolumeServer.start(deep, packs, [create_volume(deep, "disk0", root)], resolver)
    with pytest.raises(BadName):
        create_volume(short_path, "../disk", root)


def test_nothing_is_overwritten(attach: Attach, store: Store, root: TableRoot) -> None:
    attachment = attach()
    run_dir = attachment.server.run_dir
    with pytest.raises(ConflictError):
        create_volume(run_dir, "disk0", root)
    other = run_dir / "other"
    other.mkdir()
    volume = create_volume(other, "disk1", root)
    file = other / "file"
    file.write_text("mine")
    for taken in (attachment.server.socket, file):
        with pytest.raises(SocketInUse):
            VolumeServer.start(
                other, store.packs_path, [volume], local_resolver(store), socket=taken
            )
    assert file.read_text() == "mine"
    assert attachment.server.alive()


def test_a_dead_server_s_socket_is_taken_over(
    store: Store, root: TableRoot, short_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(short_path / "nbd.sock"))
    volume = create_volume(short_path, "disk0", root)
    server = VolumeServer.start(short_path, store.packs_path, [volume], local_resolver(store))
    try:
        with NbdClient(short_path / "nbd.sock", "disk0") as client:
            assert len(client.read(0, 1)) == 1
    finally:
        server.stop()


def test_without_a_daemon_a_read_fails_in_the_end(attach: Attach) -> None:
    attachment = attach(miss_wait=1)
    attachment.server._misses.close()
    with attachment.connect() as client, pytest.raises(OSError, match="EIO"):
        client.read(0, 1)
    assert "nobody answers at" in (attachment.server.run_dir / "nbdkit.log").read_text()


def test_a_killed_daemon_s_server_is_adopted(
    tmp_path: Path, short_path: Path, image: bytes
) -> None:
    Store.create(tmp_path / "killed").close()
    (tmp_path / "source").write_bytes(image)
    paths = [str(tmp_path / "killed"), str(short_path), str(tmp_path / "source")]
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, *paths], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == "ready\n"
    client = NbdClient(short_path / "nbd.sock", "disk0")
    client.write(0, b"dirty")
    daemon.send_signal(signal.SIGKILL)
    daemon.communicate()
    assert client.read(0, 5) == b"dirty"

    waiting: list[bytes] = []
    reader = threading.Thread(target=lambda: waiting.append(client.read(0, len(image))))
    reader.start()
    with Store.open(tmp_path / "killed") as store:
        root = store.import_file(tmp_path / "source")
        volume = open_volume(short_path, "disk0", root)
        server = VolumeServer.adopt(short_path, [volume], local_resolver(store))
        assert server.alive()
        reader.join(30)
        client.close()
        server.stop(remove=True)
        assert not server.alive()
        with pytest.raises(ServerFailed, match="is gone"):
            VolumeServer.adopt(short_path, [volume], local_resolver(store))
    assert waiting == [b"dirty" + image[5:]]
    assert names(short_path) == {"nbdkit.log"}


def test_serve_stored(store: Store, root: TableRoot, image: bytes, short_path: Path) -> None:
    path = short_path / "socket"
    with serve_stored(store, "notes", root, path) as server:
        with NbdClient(path, "notes") as client:
            assert client.read_only
            assert client.read(0, len(image)) == image
        run_dir = server.run_dir
    assert names(short_path) == set()
    assert not run_dir.exists()
    with serve_stored(store, "notes", root, path, writable=True), NbdClient(path, "") as client:
        client.write(0, b"w")
        assert client.read(0, 2) == b"w" + image[1:2]
