# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home says nothing any more: no reset, no refusal. Whoever waits for it notices by itself."""

import time

import pytest

from tests.system.needs import WHOLE
from tests.system.site import Site, Work
from tests.waiting import eventually

pytestmark = WHOLE


def test_a_silent_home_holds_up_neither_work_nor_the_end(site: Site) -> None:
    """What only the stick has at the end is said, and is at home when home is back."""
    site.run_with_media()
    site.move("a")
    port = site.port()
    site.adds(port, "both have it")
    assert eventually(site.all_is_stable)
    site.cut_home(silent=True)
    with Work(site, port, pause=0.1) as work:
        work.more(5)
    assert set(work.leaders) == {"a"}
    done, last = site.sees("stop", "notes"), 1 + len(work.acknowledged)
    assert done["unsent"]["first"] == 2
    assert done["unsent"]["last"] >= last
    assert done["unsent"]["log"].startswith(site.media)
    assert f"notes: operations 2 to {last} are not at home yet" in site.said
    assert "not given back: home does not answer" in site.said
    site.run_with_media()
    assert "nothing answers there; going on with the medium alone" in site.said
    site.mend_home()
    assert eventually(site.all_is_stable)
    assert site.sees("stop", "notes") == {"stopped": "notes"}
    assert {"both have it", *work.acknowledged} <= site.titles_at_home()


def test_what_the_media_has_comes_from_there_while_home_is_silent(site: Site) -> None:
    """A replica that comes up then asks both, and is held up by neither."""
    site.run_with_media()
    site.cut_home(silent=True)
    brought = site.move("a")
    assert brought["fetched_bytes"]["home"] == 0
    site.adds(site.port(), "without home")
    assert site.states()["a"] == "joined"


@pytest.mark.nightly
def test_what_only_home_has_is_waited_for(site: Site) -> None:
    """The machine stands still for longer than connections last, and goes on then."""
    site.run()
    site.move("a", "--without-media")
    port = site.port()
    site.adds(port, "before")
    site.cut_home(silent=True)
    time.sleep(75)
    assert site.states()["a"] == "joined"
    site.mend_home()
    site.adds(port, "after")
    assert eventually(site.all_is_stable)
    assert site.states() == {"home": "joined", "a": "joined"}
    assert site.status()["diverged"] == 0
