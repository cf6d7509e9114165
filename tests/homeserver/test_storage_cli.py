# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The storage commands of `satchel-home`, as a person runs them."""

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from chunkstore import Catalog, Store
from tests.chunkstore.content import COLLISIONS, noise
from tests.chunkstore.mounts import ext4, fill, remount, tmpfs
from tests.homeserver.program import PROGRAM, Program
from tests.leftovers import below
from tests.needs import requires
from tests.waiting import eventually

MIB = 1 << 20


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw image of 24 MiB and a bit: data, holes, zeros, repetition."""
    path = tmp_path_factory.mktemp("images") / "disk.raw"
    content = random.Random(1)
    with path.open("wb") as file:
        file.write(content.randbytes(3 * MIB))
        file.seek(8 * MIB)
        file.write(b"text " * 300000)
        file.seek(16 * MIB)
        file.write(bytes(MIB) + content.randbytes(MIB))
        file.truncate(24 * MIB + 1000)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Program:
    """A program whose store is at `folder`/store, made."""
    program = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "store"))
    program.json("init")
    return program


@pytest.fixture
def imported(home: Program, disk: Path) -> Program:
    home.json("import", disk, "disk")
    return home


def test_others_may_not_look_into_a_store(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = Program(tmp_path)
        home.json("init")
        stored = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "store"))
        stored.json("init")
    finally:
        os.umask(before)
    for folder in (tmp_path / "data/satchel/home", tmp_path / "store"):
        assert folder.stat().st_mode & 0o777 == 0o700


@requires("root", "mount")
def test_an_import_that_fills_the_disk_leaves_a_store_that_can_be_used(
    tmp_path: Path, disk: Path
) -> None:
    with tmpfs(tmp_path / "disk", "3m"):
        home = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "disk" / "store"))
        home.json("init")
        assert "No space left" in home.fails(7, "import", disk, "disk")["why"]
        assert home.json("ls") == []
        assert home.json("verify")["ok"]
        home.json("prune")


@requires("root", "mount")
def test_a_first_import_that_fills_the_disk_leaves_nothing_of_what_it_made_durable(
    tmp_path: Path,
) -> None:
    (tmp_path / "big").write_bytes(random.Random(1).randbytes(80 * MIB))
    with tmpfs(tmp_path / "disk", "64m"):
        home = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "disk" / "store"))
        home.json("init")
        assert "No space left" in home.fails(7, "import", tmp_path / "big", "big")["why"]
        assert list((tmp_path / "disk/store/packs").iterdir()) == []
        (tmp_path / "small").write_bytes(noise(1, 10))
        home.json("import", tmp_path / "small", "small")
        home.fails(7, "import", tmp_path / "big", "big")
        home.json("export", "small", tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == noise(1, 10)
        assert home.json("verify")["ok"]


@requires("root", "mount")
@pytest.mark.parametrize(
    "file_system", [tmpfs, pytest.param(ext4, marks=requires("loop", "mkfs.ext4"))]
)
def test_a_disk_that_others_have_filled(
    tmp_path: Path, disk: Path, file_system: Callable[[Path, str], AbstractContextManager[None]]
) -> None:
    with file_system(tmp_path / "disk", "32m"):
        folder = tmp_path / "disk" / "store"
        home = Program(tmp_path, SATCHEL_STORE=str(folder))
        home.json("init")
        home.json("import", disk, "disk")
        with Store.open(folder) as store:
            Catalog(store).add("other", store.import_bytes(noise(2, 2000)))
        fill(tmp_path / "disk")
        assert "No space left" in home.fails(7, "import", disk, "disk")["why"]
        assert [row["name"] for row in home.json("ls")] == ["disk", "other"]
        assert home.json("verify")["ok"]
        assert home.json("stats")["packs"] == 1
        home.json("export", "disk", tmp_path / "exported")
        assert (tmp_path / "exported").read_bytes() == disk.read_bytes()
        home.json("forget", "other", "--prune")
        assert [row["name"] for row in home.json("ls")] == ["disk"]
        assert home.json("verify")["ok"]
        home.json("import", disk, "again")


@requires("root", "mount", "nbdkit", "nbdcopy")
def test_a_store_on_a_disk_that_is_read_only(tmp_path: Path, disk: Path) -> None:
    with tmpfs(tmp_path / "disk", "24m"):
        home = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "disk" / "store"))
        home.json("init")
        home.json("import", disk, "disk")
        remount(tmp_path / "disk", "ro")
        assert [row["name"] for row in home.json("ls")] == ["disk"]
        assert home.json("verify")["ok"]
        home.json("export", "disk", tmp_path / "exported")
        assert (tmp_path / "exported").read_bytes() == disk.read_bytes()
        with volume(home, "--socket", tmp_path / "nbd"):
            assert eventually((tmp_path / "nbd").exists)
            run("nbdcopy", f"nbd+unix:///disk?socket={tmp_path}/nbd", str(tmp_path / "copy"))
            assert home.json("verify")["ok"]
        assert (tmp_path / "copy").read_bytes() == disk.read_bytes()
        assert home.json("prune", "--dry-run")["removed"] == 0
        assert "Read-only" in home.fails(9, "prune")["why"]


def test_a_socket_in_a_folder_that_is_not_there(imported: Program) -> None:
    error = imported.fails(3, "serve-volume", "disk", "--socket", "/nonexistent/disk.sock")
    assert error["why"] == "there is no folder /nonexistent"


@pytest.mark.parametrize("relaxation", ["nan", "inf", "-1"])
def test_a_relaxation_is_a_number_of_seconds(home: Program, relaxation: str) -> None:
    error = home.fails(2, "share", "set", "papers", f"--relaxation={relaxation}")
    assert error["what"] == "--relaxation must be seconds, at least 0"


def test_the_line_of_a_home_can_be_had_again(tmp_path: Path) -> None:
    home = Program(tmp_path)
    line = home.json("init")["allowed_signers"]
    assert home.fails(5, "init")["fix"].endswith(line)


def test_the_home_itself_is_not_shared(tmp_path: Path) -> None:
    home = Program(tmp_path)
    home.json("init")
    own = tmp_path / "data/satchel/home"
    for folder in (own, own / "identity", tmp_path / "data"):
        assert "the owner's key" in home.fails(5, "share", "add", folder)["why"]


def test_import_export_gives_the_same_bytes(home: Program, disk: Path) -> None:
    entry = home.json("import", disk, "disk")
    assert (entry["name"], entry["size"]) == ("disk", disk.stat().st_size)
    out = home.folder / "out.raw"
    assert home.json("export", "disk", out)["size"] == disk.stat().st_size
    assert out.read_bytes() == disk.read_bytes()
    assert out.stat().st_blocks * 512 < 8 * MIB  # sparse


def test_an_export_to_standard_output_is_refused_and_makes_no_file(
    imported: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(imported.folder)
    assert "nbdcopy" in imported.fails(2, "export", "disk", "-")["fix"]
    assert not Path("-").exists()


def test_two_blocks_with_one_sha1_are_told_of_and_kept(home: Program) -> None:
    content = COLLISIONS[0] + noise(1) + COLLISIONS[1]
    (home.folder / "both").write_bytes(content)
    done = home.run("import", "--raw", home.folder / "both", "disk", "--json")  # it is a PDF
    assert json.loads(done.stdout)["collisions"] == 1
    assert f"have the SHA-1 {hashlib.sha1(COLLISIONS[0]).hexdigest()}" in done.stderr
    assert home.json("import", "--raw", home.folder / "both", "again")["collisions"] == 0
    assert home.json("stats")["variants"] == 1
    home.json("export", "disk", home.folder / "out")
    assert (home.folder / "out").read_bytes() == content


@requires("qemu-img")
@pytest.mark.parametrize("compressed", [False, True])
def test_import_of_qcow2(home: Program, disk: Path, *, compressed: bool) -> None:
    image = home.folder / "disk.qcow2"
    argv = ["qemu-img", "convert", "-O", "qcow2", *(["-c"] if compressed else [])]
    subprocess.run([*argv, "-f", "raw", str(disk), str(image)], check=True)
    home.json("import", image, "disk")
    out = home.folder / "out.raw"
    home.json("export", "disk", out)
    argv = ["qemu-img", "compare", "-f", "raw", "-F", "raw", str(disk), str(out)]
    subprocess.run(argv, check=True, capture_output=True)
    assert home.json("verify")["ok"]


@requires("qemu-img")
@pytest.mark.parametrize("name", ["vmdk", "vdi", "vhdx", "vpc", "qed", "parallels", "qcow"])
def test_other_formats_are_refused_with_what_to_do(home: Program, disk: Path, name: str) -> None:
    image = home.folder / "disk"
    convert = ["qemu-img", "convert", "-q", "-f", "raw", str(disk), str(image)]
    subprocess.run([*convert, "-O", name], check=True)
    error = home.fails(10, "import", image, "disk")
    assert error["why"] == f"it is {name}, and neither raw nor qcow2"
    remedy = error["fix"].removeprefix("convert it: ").partition(";")[0]
    made = remedy.replace("DISK.qcow2", str(home.folder / "q"))
    subprocess.run(made.split(), check=True)
    whole = home.json("import", home.folder / "q", "disk")["size"]
    assert whole >= disk.stat().st_size
    assert home.json("import", "--raw", image, "disk")["size"] == image.stat().st_size


def test_two_images_share_what_they_have_in_common(imported: Program, disk: Path) -> None:
    before = imported.json("stats")
    assert imported.json("import", disk, "again")["stored_bytes"] == 0
    assert imported.json("stats") == before


def test_ls_forget_prune(imported: Program) -> None:
    (row,) = imported.json("ls")
    assert (row["name"], row["size"]) == ("disk", 24 * MIB + 1000)
    assert "disk" in imported.run("ls").stdout
    assert imported.json("prune")["removed"] == 0
    forgotten = imported.json("forget", "disk")
    assert [row["version"] for row in forgotten["forgotten"]] == [row["version"]]
    assert imported.json("ls") == []
    before = imported.json("stats")
    pruned = imported.json("prune")
    assert (pruned["kept"], pruned["removed"]) == (0, before["chunks"])
    assert imported.json("stats")["chunks"] == 0
    assert imported.json("verify")["ok"]


def test_settle(imported: Program, disk: Path) -> None:
    before = imported.json("stats")
    report = imported.json("settle")
    assert report["chunks"] == before["chunks"]
    assert report["bytes_before"] == before["pack_bytes"]
    after = imported.json("stats")
    assert (after["settled"], after["chunks"]) == (before["chunks"], before["chunks"])
    assert after["pack_bytes"] == report["bytes_after"] < before["pack_bytes"]
    assert imported.json("settle")["chunks"] == 0
    out = imported.folder / "out.raw"
    imported.json("export", "disk", out)
    assert out.read_bytes() == disk.read_bytes()
    assert imported.json("verify")["ok"]


def test_a_damaged_name_hides_no_other_one(imported: Program) -> None:
    (imported.folder / "small").write_bytes(noise(77, 10))
    lost = imported.json("import", imported.folder / "small", "lost")
    label = f"lost@{lost['version']}"
    (imported.folder / "store/names" / f"{label}.json").write_bytes(b"{")
    listed = imported.run("ls", "--json")
    assert [row["name"] for row in json.loads(listed.stdout)] == ["disk"]
    assert f"names/{label}.json" in listed.stderr
    imported.json("export", "disk", imported.folder / "out")
    error = imported.fails(6, "prune")
    assert error["fix"].endswith(f"`satchel-home forget {label}`")
    assert f"volume {label}" in imported.fails(6, "repair")["why"]
    gone = imported.json("forget", label, "--prune")
    assert [row["version"] for row in gone["forgotten"]] == [lost["version"]]
    assert gone["pruned"]["removed"] == 11


def test_a_forget_that_prunes_says_what_went(imported: Program) -> None:
    version = imported.json("ls")[0]["version"]
    said = imported.run("forget", f"disk@{version}", "--prune").stdout.splitlines()
    rows = [line.split() for line in said]
    assert rows[0][:3] == ["kind", "name", "version"]
    assert rows[1][:3] == ["volume", "disk", version]
    assert ["kept", "0"] in rows
    assert ["bytes", "after", "0", "B"] in rows


def test_verify_finds_one_wrong_byte(imported: Program) -> None:
    assert imported.json("verify")["ok"]
    assert imported.run("verify").returncode == 0
    (pack,) = (imported.folder / "store" / "packs").glob("*.pack")
    with pack.open("r+b") as file:
        file.seek(pack.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    done = imported.run("verify", "--json")
    assert done.returncode == 6
    report = json.loads(done.stdout)
    assert not report["ok"]
    (bad,) = report["bad"]
    assert bad["pack"] == int(pack.stem)
    error = imported.fails(6, "verify")
    assert error["code"] == "integrity"
    assert "damaged" in error["what"]
    assert error["why"].startswith("volume disk@")
    assert error["why"].endswith("1 chunks are lost")
    assert "import" in error["fix"]
    exported = imported.run("export", "disk", imported.folder / "out")
    assert exported.returncode == 6, exported.stderr
    assert not (imported.folder / "out").exists()


def test_bad_input_has_its_exit_code(imported: Program, disk: Path) -> None:
    folder = imported.folder
    assert imported.fails(3, "import", folder / "nothing", "name")["code"] == "not-found"
    assert imported.fails(2, "import", disk, "Not a name")["code"] == "usage"
    assert imported.fails(3, "export", "nothing", folder / "out")["code"] == "not-found"
    assert imported.fails(3, "forget", "nothing")["code"] == "not-found"
    assert imported.fails(3, "serve-volume", "nothing", "--socket", folder / "s")
    (folder / "bad.qcow2").write_bytes(b"QFI\xfb" + bytes(2000))
    assert imported.fails(6, "import", folder / "bad.qcow2", "bad")["code"] == "integrity"
    assert imported.fails(5, "init")["code"] == "conflict"
    assert [row["name"] for row in imported.json("ls")] == ["disk"]


def test_no_store(tmp_path: Path) -> None:
    program = Program(tmp_path)
    error = program.fails(3, "ls")
    assert "satchel-home init" in error["fix"]


def test_usage() -> None:
    program = Program(Path("/nonexistent"))
    assert program.run("nothing").returncode == 2
    assert program.run("import", "one").returncode == 2
    assert program.run("ls", "--colour").returncode == 2
    assert program.run("--help").returncode == 0
    assert program.run("--version").stdout.startswith("satchel-home")


def test_store_by_option_by_variable_and_by_default(tmp_path: Path, disk: Path) -> None:
    plain = Program(tmp_path)
    made = plain.json("init")
    assert made["store"] == str(tmp_path / "data" / "satchel" / "home" / "store")
    assert made["allowed_signers"].startswith("owner ")
    plain.json("--store", tmp_path / "other", "init")
    plain.json("--store", tmp_path / "other", "import", disk, "disk")
    assert plain.json("ls") == []
    variable = Program(tmp_path, SATCHEL_STORE=str(tmp_path / "other"))
    assert [row["name"] for row in variable.json("ls")] == ["disk"]
    assert variable.json("--store", made["store"], "ls") == []


def test_a_command_about_the_home_refuses_another_store(home: Program, tmp_path: Path) -> None:
    assert "satchel-home init" in home.fails(3, "media", "init", tmp_path)["fix"]
    home.json("media", "init", tmp_path, "--unsealed")
    for argv in (["serve"], ["service", "ls"], ["launch", "notes"], ["media", "sync", tmp_path]):
        told = home.fails(2, *argv)
        assert told["what"] == f"a home works on its own store, and not on {tmp_path / 'store'}"


def test_a_store_that_is_in_use_names_the_process(imported: Program) -> None:
    socket = imported.folder / "nbd"
    with volume(imported, "--socket", socket) as process:
        assert eventually(socket.exists)
        assert imported.json("ls")
        error = imported.fails(5, "settle")
        assert str(process.pid) in error["why"]
    imported.json("settle")


@contextlib.contextmanager
def volume(home: Program, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = home.start("serve-volume", "disk", *arguments)
    try:
        yield process
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130, home.log.read_text()
    finally:
        process.kill()
        process.wait()


@requires("nbdkit", "nbdinfo", "nbdcopy", "qemu-img")
def test_serve_volume(imported: Program, disk: Path) -> None:
    socket = imported.folder / "nbd"
    uri = f"nbd+unix:///disk?socket={socket}"
    with volume(imported, "--socket", socket):
        assert eventually(lambda: "volume disk at" in imported.log.read_text())
        assert uri in imported.log.read_text()
        info = json.loads(run("nbdinfo", "--json", uri))["exports"][0]
        assert info["export-size"] == disk.stat().st_size
        assert info["is_read_only"]
        run("nbdcopy", uri, str(imported.folder / "copy"))
        assert (imported.folder / "copy").read_bytes() == disk.read_bytes()
        run("qemu-img", "compare", "-f", "raw", "-F", "raw", str(disk), uri)
        writing = subprocess.run(["nbdcopy", str(disk), uri], check=False, capture_output=True)
        assert writing.returncode != 0
    assert not socket.exists()
    assert below(imported.folder) == []


@requires("nbdkit", "nbdcopy", "fio")
def test_serve_volume_writable(imported: Program, disk: Path, tmp_path: Path) -> None:
    socket = imported.folder / "nbd"
    uri = f"nbd+unix:///disk?socket={socket}"
    with volume(imported, "--socket", socket, "--writable"):
        assert eventually(socket.exists)
        fio = ["fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", "--rw=randrw", "--bs=4k"]
        fio += ["--size=16m", "--io_size=8m", "--iodepth=8", "--verify=crc32c"]
        fio += ["--verify_fatal=1", "--randseed=1", "--output-format=json"]
        done = subprocess.run(fio, check=False, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        changed = bytearray(disk.read_bytes())
        changed[5 * MIB : 5 * MIB + 5000] = random.Random(2).randbytes(5000)
        (tmp_path / "changed").write_bytes(changed)
        run("nbdcopy", "--flush", str(tmp_path / "changed"), uri)
        run("nbdcopy", uri, str(tmp_path / "back"))
        assert (tmp_path / "back").read_bytes() == changed
    imported.json("export", "disk", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == disk.read_bytes()
    assert below(imported.folder) == []


@requires("nbdkit")
def test_ctrl_c_twice_and_sigterm_end_serve_volume_cleanly(imported: Program) -> None:
    socket = imported.folder / "nbd"
    for signals in ([signal.SIGTERM], [signal.SIGINT] * 3, [signal.SIGINT, signal.SIGTERM]):
        process = imported.start("serve-volume", "disk", "--socket", socket)
        assert eventually(lambda: "volume disk at" in imported.log.read_text())
        for number in signals:
            process.send_signal(number)
        ended = signals[0] == signal.SIGTERM
        assert process.wait(30) == (0 if ended else 130)
        said = imported.log.read_text().splitlines()[-1]
        assert said == f"satchel-home: {'ended' if ended else 'interrupted'}"
        assert not socket.exists()
        assert below(imported.folder) == []
    assert imported.json("verify")["ok"]


def test_ctrl_c_in_the_middle_of_an_import(imported: Program, tmp_path: Path) -> None:
    """At several moments: what is there stays, the name is not taken, a second try succeeds."""
    large = tmp_path / "large.raw"
    with large.open("wb") as file:
        for seed in range(12):
            file.write(random.Random(seed).randbytes(16 * MIB))
    packs = tmp_path / "store" / "packs"
    interrupted = 0
    for moment in range(4):
        size = used(packs)
        process = imported.start("import", large, "large")
        while process.poll() is None and used(packs) <= size + moment * 8 * MIB:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
        if code == 0:
            break
        assert code == 130, imported.log.read_text()
        interrupted += 1
        assert [row["name"] for row in imported.json("ls")] == ["disk"]
    assert interrupted >= 1
    assert imported.json("verify")["ok"]
    if interrupted == 4:
        imported.json("import", large, "large")
    imported.json("export", "large", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == large.read_bytes()


def test_ctrl_c_in_the_middle_of_an_export(imported: Program, tmp_path: Path) -> None:
    out = tmp_path / "out.raw"
    out.write_bytes(b"precious")
    imported.log.touch()
    before = len(list(tmp_path.iterdir()))
    process = imported.start("export", "disk", out, "--overwrite")
    assert eventually(lambda: len(list(tmp_path.iterdir())) > before or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) in (0, 130)
    assert out.stat().st_size in (len(b"precious"), 24 * MIB + 1000)
    assert len(list(tmp_path.iterdir())) == before


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def run(*argv: str) -> str:
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_progress_goes_to_a_terminal_only(imported: Program) -> None:
    done = imported.run("verify")
    assert "verify" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_a_pipe_that_nobody_reads(imported: Program) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(
            [PROGRAM, "ls"],
            env=imported.environment,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")
