# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The end of a session whose home cannot be reached."""

import logging

import pytest

from tests.client.world import World, operations, post


def test_what_home_lacks_at_the_end_is_said_and_stays_in_the_log(carried: World) -> None:
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    assert operations(runner).wait_stable(60)
    carried.home.cut()
    for _ in range(3):
        assert post(url).headers["X-Satchel-Leader"] == "a"
    unsent = runner.settle()
    assert unsent is not None
    assert (unsent.first, unsent.last) == (2, 4)
    assert unsent.log.startswith(str(carried.stick))
    assert "operations 2 to 4 are not at home yet" in str(unsent)
    runner.close()
    carried.home.mend()
    again = carried.runner()
    assert operations(again).wait_stable(60)
    assert again.settle() is None


@pytest.mark.parametrize("lacking", [False, True])
def test_a_home_that_hangs_is_asked_for_a_sign_of_life_and_not_for_more(
    carried: World, caplog: pytest.LogCaptureFixture, lacking: bool
) -> None:
    """Its host answers, and nothing that runs there: the lease was waited for all the same."""
    runner = carried.runner()
    url = carried.proxy(runner)
    runner.move("a")
    post(url)
    assert operations(runner).wait_stable(60)
    carried.home.hang()
    if lacking:
        assert post(url).headers["X-Satchel-Leader"] == "a"
    caplog.set_level(logging.WARNING)
    runner.close()
    unsent = runner.settle()
    assert (unsent is not None) == lacking
    assert "the lease was not given back: home does not answer" in caplog.text


def test_a_surrogate_that_hangs_is_asked_for_a_sign_of_life_and_not_for_more(
    carried: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Its host's kernel answers for its sshd: `stop` waited for the end of the replica there, and
    then for the removal of each socket."""
    runner = carried.runner()
    runner.move("a")
    carried.spots["a"].hang()
    caplog.set_level(logging.WARNING)
    runner.close()
    assert "was left behind: cannot end the replica at a: it is silent" in caplog.text
    carried.spots["a"].cut()
    carried.spots["a"].mend()
    again = carried.runner()
    again.move("a")
    assert len(carried.spots["a"].replicas()) == 1
