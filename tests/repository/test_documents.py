# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Documentation is tested: it names what is there, all of it, and nothing else."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.needs import requires
from tests.repository import tree

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SHELL_FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(satchel(?:-home|-surrogate)?\s+[a-z][^`\x22]*)`")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
NAMED = re.compile(r"^- `([^`]+)` \(", re.MULTILINE)


def pages() -> list[Path]:
    return tree.with_suffix(".md")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = HEADING.findall(FENCE.sub("", tree.text(page)))
    bare = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in bare}


def section(page: str, heading: str) -> str:
    return tree.text(Path(page)).split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_every_link_resolves() -> None:
    broken = []
    for page in pages():
        for link in LINK.findall(FENCE.sub("", tree.text(page))):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = Path((tree.ROOT / page.parent / name).resolve()) if name else tree.ROOT / page
            if not target.exists():
                broken.append(f"{page}: {link}")
            elif anchor and anchor not in anchors(target.relative_to(tree.ROOT)):
                broken.append(f"{page}: {link}: no such heading")
    assert not broken


def test_every_picture_is_in_a_page() -> None:
    shown = {
        (page.parent / name).as_posix()
        for page in pages()
        for name in re.findall(r"\]\(([\w./-]+\.(?:svg|png))\)", tree.text(page))
    }
    pictures = {path.as_posix() for path in tree.files() if path.parent.name == "pictures"}
    assert len(pictures) > 5
    assert shown == pictures


def test_files_and_folders_that_documents_name_are_there() -> None:
    """But for those of formats, which are below a home or on a medium."""
    tops = {path.parts[0] for path in tree.files() if len(path.parts) > 1}
    gone = []
    for page in pages():
        for name in re.findall(r"`([\w.-]+/[\w./-]*)`", FENCE.sub("", tree.text(page))):
            if name.split("/")[0] in tops and not (tree.ROOT / name).exists():
                gone.append(f"{page}: {name}")
    assert [what for what in gone if not what.startswith("docs/formats/")] == []


def test_commands_errors_settings_and_formats_are_listed_as_they_are() -> None:
    argv = [sys.executable, "scripts/reference.py", "--check"]
    made = subprocess.run(argv, cwd=tree.ROOT, check=False, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr + "\nrun scripts/reference.py"


def test_commands_in_the_documents_are_commands_with_these_options() -> None:
    sections = tree.text(Path("docs/commands.md")).split("\n### `")[1:]
    known = {section.split("`")[0]: section for section in sections}
    wrong = []
    for page in pages():
        for fence in SHELL_FENCE.findall(tree.text(page)):
            for line in re.findall(r"^ *(satchel(?:-home|-surrogate)? .+)$", fence, re.MULTILINE):
                words = line.split("#")[0].split()
                options = {word for word in words if word.startswith("--")}
                found = [
                    text
                    for usage, text in known.items()
                    if all(word in words for word in usage.split() if not word.isupper())
                ]
                if not any(all(f"`{option}`" in text for option in options) for text in found):
                    wrong.append(f"{page}: {line}")
    assert not wrong


def test_commands_within_sentences_are_commands_with_these_options() -> None:
    """In documents, and in what programs say: help, errors, docstrings."""
    sections = tree.text(Path("docs/commands.md")).split("\n### `")[1:]
    known = {}
    for section in sections:
        usage = section.split("`")[0].split()
        known[tuple(word for word in usage if re.fullmatch(r"[a-z-]+", word))] = section
    wrong, looked = [], 0
    sources = [page for page in tree.with_suffix(".py") if page.parts[0] != "tests"]
    for page in [page for page in pages() if page.parts[:2] != ("docs", "formats")] + sources:
        for said in INLINE.findall(FENCE.sub("", tree.text(page))):
            words = " ".join(said.split()).split("|")[0].split()  # `config get|set`
            named = words[: next((n for n, w in enumerate(words) if not w.islower()), len(words))]
            found = [
                text
                for path, text in known.items()
                if path == tuple(named[: len(path)]) or path[: len(named)] == tuple(named)
            ]
            options = [word.split("=")[0] for word in words if word.startswith("--")]
            looked += 1
            if not any(all(f"`{option}`" in text for option in options) for text in found):
                wrong.append(f"{page}: {said}")
    assert looked > 200
    first_line_of_a_format = "surrogate/tenants/ban_list.py: satchel-surrogate banned 1"
    assert wrong == [first_line_of_a_format]


def python_requirements(*extras: str) -> list[str]:
    project = tomllib.loads(tree.text(Path("pyproject.toml")))
    optional = project["project"]["optional-dependencies"]
    return [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(requirement for extra in extras for requirement in optional[extra]),
    ]


def test_every_python_dependency_has_its_reason() -> None:
    names = sorted(
        Requirement(requirement).name for requirement in python_requirements("demo", "dev")
    )
    documented = NAMED.findall(section("docs/dependencies.md", "Python packages"))
    assert sorted(documented) == names


def test_every_debian_package_has_its_reason() -> None:
    names = []
    for listing in ("scripts/packages.txt", "scripts/test-packages.txt"):
        lines = tree.text(Path(listing)).splitlines()
        listed = [line.split("#")[0].strip() for line in lines if not line.startswith("#")]
        assert listed == sorted(listed)
        names += [name.split(" | ")[0] for name in listed]
    documented = NAMED.findall(section("docs/dependencies.md", "Debian packages"))
    assert sorted(documented) == sorted(names)


def test_format_pages_that_sources_name_are_there() -> None:
    named = re.compile(r"docs/[\w/-]+\.md")
    missing = [
        f"{path}: {page}"
        for path in tree.files()
        for page in named.findall(tree.text(path))
        if not (tree.ROOT / page).is_file()
    ]
    assert not missing


@requires("ruby")
def test_the_vagrantfile_is_valid_ruby() -> None:
    checked = subprocess.run(
        ["ruby", "-c", "Vagrantfile"], cwd=tree.ROOT, check=False, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr


def test_the_vagrantfile_has_a_home_and_a_surrogate() -> None:
    boxes = re.findall(r'\.vm\.define "(\w+)"', tree.text(Path("Vagrantfile")))
    assert boxes == ["home", "surrogate"]


def test_every_part_of_the_engine_has_its_place_in_the_order_of_reading() -> None:
    """A `.cc` beside a header of that name goes with it."""
    core = tree.ROOT / "chunkstore" / "core"
    text = (core / "README.md").read_text()
    files = [path for path in core.glob("*/*") if path.suffix in (".h", ".cc")]
    parts = [p for p in files if p.suffix == ".h" or not p.with_suffix(".h").exists()]
    assert len(parts) > 40
    assert [path.name for path in parts if f"`{path.name}`" not in text] == []
    named = set(re.findall(r"`(\w+\.(?:h|cc))`", text))
    assert named <= {path.name for path in files}


def locked(listing: str) -> dict[str, tuple[str, str]]:
    """Version and hashes of each package."""
    found = re.findall(
        r"^([a-z0-9][\w.-]*)==([\w.]+)((?: *\\\n +--hash=sha256:[0-9a-f]{64})+)$",
        tree.text(Path(listing)),
        re.MULTILINE,
    )
    return {name: (version, hashes) for name, version, hashes in found}


@pytest.mark.parametrize(
    ("listing", "extras"),
    [("requirements.lock", ["demo"]), ("requirements-dev.lock", ["demo", "dev"])],
)
def test_every_python_dependency_is_locked_with_its_hashes(listing: str, extras: list[str]) -> None:
    versions = {name: version for name, (version, _) in locked(listing).items()}
    for requirement in map(Requirement, python_requirements(*extras)):
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)])


def test_tests_run_with_the_packages_that_are_installed_without_them() -> None:
    assert locked("requirements.lock").items() <= locked("requirements-dev.lock").items()
