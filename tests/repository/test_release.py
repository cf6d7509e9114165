# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who installs a release can tell whether somebody changed it: the commands of docs/dependencies.md
are run as they stand there. Who builds one gets no other package than the locks name."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.needs import requires

ROOT = Path(__file__).parents[2]
PACKAGES = ("satchel-0.1.0-py3-none-any.whl", "satchel_0.1.0_amd64.deb")
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-nightly.lock")
_ENTRY = re.compile(
    r"^(\S+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)


def locked(lock: str) -> dict[str, str]:
    """Names and versions of a lock. Each of its lines that is no comment is accounted for."""
    text = (ROOT / lock).read_text()
    found = {match[1].lower(): match[2] for match in _ENTRY.finditer(text)}
    rest = _ENTRY.sub("", text).splitlines()
    assert [line for line in rest if line.strip() and not line.lstrip().startswith("#")] == []
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_each_package_is_locked_to_hashes(lock: str) -> None:
    assert len(locked(lock)) > 20


def test_a_changed_package_is_refused_by_pip(tmp_path: Path) -> None:
    """Somebody has put another segno of the same version in its place."""
    version = locked("requirements.lock")["segno"]
    text = (ROOT / "requirements.lock").read_text()
    entry = next(match[0] for match in _ENTRY.finditer(text) if match[1] == "segno")
    (tmp_path / "lock").write_text(entry)
    about = f"segno-{version}.dist-info"
    with zipfile.ZipFile(tmp_path / f"segno-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("segno/__init__.py", "print('hello')")
        wheel.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: segno\nVersion: {version}\n"
        )
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    pip = [sys.executable, "-m", "pip", "download", "--no-index", "--no-deps", "--require-hashes"]
    argv = [*pip, "--find-links", str(tmp_path), "--dest", str(tmp_path / "got"), "-r", "lock"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "got" / f"segno-{version}-py3-none-any.whl").exists()
    bootstrap = (ROOT / "scripts" / "bootstrap").read_text()
    assert re.findall(r"pip install (.*)--requirement", bootstrap) == ["--require-hashes "] * 2


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that is signed with KEY beside it, and what its readers have of its maker."""
    top = tmp_path_factory.mktemp("release")
    key, folder = top / "key", top / "release"
    folder.mkdir()
    (folder / "satchel-0.1.0-py3-none-any.whl").write_bytes(b"a wheel" * 1000)
    (folder / "satchel_0.1.0_amd64.deb").write_bytes(b"a deb" * 1000)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    subprocess.run([str(ROOT / "scripts" / "sign-release"), str(folder), str(key)], check=True)
    public = key.with_suffix(".pub").read_text()
    (folder / "allowed_signers").write_text(f'release namespaces="satchel-release" {public}')
    return top


@pytest.fixture
def release(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    shutil.copytree(made / "release", tmp_path / "release")
    return tmp_path / "release"


def verified(release: Path) -> list[bool]:
    """Whether each of the two commands of the page says that all is well."""
    page = (ROOT / "docs" / "dependencies.md").read_text().partition("## Releases")[2]
    commands = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert [command.split()[0] for command in commands] == ["ssh-keygen", "sha256sum"]
    return [
        subprocess.run(
            ["bash", "-c", one], cwd=release, capture_output=True, check=False
        ).returncode
        == 0
        for one in commands
    ]


@requires("ssh-keygen")
def test_a_release_is_verified_and_a_changed_byte_of_any_file_is_not(release: Path) -> None:
    assert verified(release) == [True, True]
    for name in (*PACKAGES, "satchel.cdx.json", "satchel.intoto.json"):
        whole = (release / name).read_bytes()
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 1
        (release / name).write_bytes(changed)
        assert verified(release) == [True, False], name
        (release / name).write_bytes(whole)
    sums = release / "SHA256SUMS"
    sums.write_text(sums.read_text().replace("a", "b", 1))
    assert verified(release)[0] is False


@requires("ssh-keygen")
def test_nobody_elses_signature_counts_and_none_for_another_purpose(
    made: Path, release: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    for key, namespace in ((other, "satchel-release"), (made / "key", "file")):
        (release / "SHA256SUMS.sig").unlink()
        argv = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", namespace, "SHA256SUMS"]
        subprocess.run(argv, cwd=release, check=True)
        assert verified(release)[0] is False


@requires("ssh-keygen")
def test_the_list_of_parts_is_what_is_locked(release: Path) -> None:
    listed = json.loads((release / "satchel.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    parts = {part["name"].lower(): part["version"] for part in listed["components"]}
    assert parts == locked("requirements.lock")
    assert all(
        reference["hashes"]
        for part in listed["components"]
        for reference in part["externalReferences"]
    )


def provenance(*words: str | Path) -> tuple[int, str]:
    argv = [sys.executable, str(ROOT / "scripts" / "provenance.py"), *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def in_git(tree: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    argv = ["git", "-C", str(tree), *who, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@requires("ssh-keygen")
def test_the_provenance_names_commit_packages_and_locks(release: Path) -> None:
    said = json.loads((release / "satchel.intoto.json").read_text())
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == "https://slsa.dev/provenance/v1"
    assert [each["name"] for each in said["subject"]] == [*PACKAGES, "satchel.cdx.json"]
    definition = said["predicate"]["buildDefinition"]
    found = {each["name"]: each["digest"] for each in definition["resolvedDependencies"]}
    assert found["source"] == {"gitCommit": in_git(ROOT, "rev-parse", "HEAD")}
    digest = hashlib.sha256((ROOT / "requirements.lock").read_bytes()).hexdigest()
    assert found["requirements.lock"] == {"sha256": digest}
    assert said["predicate"]["runDetails"]["builder"]["id"].startswith("urn:satchel:")
    assert provenance("check", release)[0] == 0


@requires("ssh-keygen")
def test_packages_of_another_commit_lock_or_maker_are_refused(
    release: Path, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    for name in ("debian", "scripts"):
        shutil.copytree(ROOT / name, tree / name)
    for lock in LOCKS:
        shutil.copy(ROOT / lock, tree)
    in_git(tree, "init", "-q")
    in_git(tree, "add", ".")
    in_git(tree, "commit", "-q", "-m", "a")
    assert provenance("make", release, "--source", tree) == (0, "")
    assert in_git(tree, "rev-parse", "HEAD") in provenance("check", release, "--source", tree)[1]
    (release / "satchel_0.2.0_amd64.deb").write_bytes(b"of another maker")
    assert "0.2.0_amd64.deb is not in satchel.intoto.json" in provenance("check", release)[1]
    (release / "satchel_0.2.0_amd64.deb").unlink()
    (release / PACKAGES[0]).write_bytes(b"changed")
    assert provenance("check", release)[0] == 1
    with (tree / "requirements.lock").open("a") as locks:
        locks.write("# changed\n")
    assert provenance("make", release, "--source", tree) == (0, "")
    assert "with 1 changed files" in provenance("check", release)[1]
    assert provenance("check", release, "--source", tree)[0] == 1
    in_git(tree, "commit", "-q", "-a", "-m", "b")
    assert "is not" in provenance("check", release, "--source", tree)[1]
    (release / "satchel.intoto.json").write_text("[]")
    assert "is damaged" in provenance("check", release)[1]
