# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Real machines that do not do the same twice: quarantine, evidence, the doctor; and what helps."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from client.moves.quarantine import RESTARTS
from images import Recipe, build
from images.recipe import SHIPPED
from replay import agent_program
from testbed import Testbed
from testbed.built import cache_folder
from tests.system.conftest import site_of
from tests.system.needs import WHOLE
from tests.system.site import Site
from tests.waiting import eventually

pytestmark = [*WHOLE, pytest.mark.nightly]

RECIPE = """\
name = "straying"
extends = "base"
command = "exec /usr/bin/python3 -s /usr/lib/satchel/straying.py 8080"
user = "nobody"
needs = {needs}
"""


def images(folder: Path, needs: list[str]) -> Path:
    """A folder with the service's image."""
    recipe, program = folder / "straying", "files/usr/lib/satchel/straying.py"
    (recipe / program).parent.mkdir(parents=True)
    (folder / "base").symlink_to(SHIPPED / "base")
    shutil.copy(Path(__file__).with_name("straying.py"), recipe / program)
    (recipe / "recipe.toml").write_text(RECIPE.format(needs=json.dumps(needs)))
    made, layers = folder / "images", cache_folder() / "layers"
    build(Recipe.load(recipe), made / "straying", agent=agent_program(), layers=layers)
    return made


def asked(site: Site, *paths: str) -> list[str]:
    replies = [site.request(site.port(), "POST", path) for path in paths]
    assert {reply.status for reply in replies} == {200}
    return [reply.body for reply in replies]


def examined(site: Site, code: int) -> Any:
    done = site.types("doctor", "straying", "--json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_replica_that_goes_by_its_machine_is_in_quarantine_and_the_doctor_knows_why(
    bed: Testbed, short_path: Path, tmp_path: Path
) -> None:
    with site_of("straying", images(tmp_path, []), bed, short_path) as site:
        site.run_with_media()
        site.move("a")
        assert asked(site, "/count", "/count") == ["1", "2"]
        assert site.states() == {"home": "joined", "a": "joined"}
        assert asked(site, "/moment")[0].startswith("3 at ")
        attempts = RESTARTS + 1  # each executes the log again, and the same operation differs
        assert eventually(lambda: len(site.status()["quarantined"]) == attempts)
        cases = site.status()["quarantined"]
        assert {(case["operation"], case["surrogate"]) for case in cases} == {(3, "a")}
        evidence = Path(cases[0]["evidence"])
        home, there = (evidence / f"{who}.response" for who in ("home", "replica"))
        assert home.read_bytes() != there.read_bytes()
        assert b"3 at " in home.read_bytes()
        told = [line for line in site.said.splitlines() if "operation 3 otherwise" in line]
        assert len(told) == attempts
        assert "is in quarantine; evidence: " in told[0]
        assert [line.endswith("another one is brought up") for line in told] == [True, True, False]
        assert site.states() == {"home": "joined"}
        assert asked(site, "/count") == ["4"]
        differs = examined(site, 6)["differs"]
        print(differs)
        assert (differs["operation"], differs["request"]) == (3, "POST /moment")
        assert differs["cause"] == "time"


def test_with_the_logs_time_it_does_the_same_everywhere(
    bed: Testbed, short_path: Path, tmp_path: Path
) -> None:
    with site_of("straying", images(tmp_path, ["time"]), bed, short_path) as site:
        site.run_with_media()
        site.move("a")
        answers = asked(site, "/count", "/moment", "/moment", "/moment")
        assert len(set(answers)) == 4
        assert eventually(lambda: site.status()["later_responses"] == 4)
        assert site.status()["diverged"] == 0
        assert site.states() == {"home": "joined", "a": "joined"}
        assert examined(site, 0)["differs"] is None
