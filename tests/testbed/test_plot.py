# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The plot of response times."""

from pathlib import Path

import pytest
from PIL import Image, ImageOps

from satchel.errors import NotFoundError, UsageError
from testbed.plot import Sample, read_samples, response_times, takeovers

HEADER = "iteration,operation,seconds,leader,mode,clock\n"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    path = tmp_path / "notes.csv"
    rows = [
        "2,add,0.4,home,with,7",
        "1,add,0.05,surrogate-a,with,6",
        "3,add,0.06,surrogate-b,with,8",
        "1,add,0.05,surrogate-a,without,6",
        "2,add,0.41,home,without,7",
    ]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    return path


def test_samples_are_read_by_mode_in_order(samples: Path) -> None:
    series = read_samples(samples)
    assert list(series) == ["with", "without"]
    assert [sample.iteration for sample in series["with"]] == [1, 2, 3]
    assert series["without"][1] == Sample(2, 0.41, "home")


def test_a_takeover_is_the_first_lead_of_another_surrogate() -> None:
    leaders = ["surrogate-a", "home", "surrogate-a", "surrogate-b", "home", "surrogate-b"]
    run = [Sample(number, 1.0, leader) for number, leader in enumerate(leaders, start=1)]
    assert takeovers(run) == [Sample(4, 1.0, "surrogate-b")]
    assert takeovers([]) == []


def test_a_png_is_drawn_with_one_panel_each(samples: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.png"
    other = tmp_path / "speech.csv"
    other.write_text(samples.read_text())
    response_times([samples, other], output)
    data = output.read_bytes()
    assert data.startswith(PNG)
    width, height = int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    assert width > 1000
    assert height > 1000


def test_nothing_is_cut_off_at_the_edge_of_the_picture(samples: Path, tmp_path: Path) -> None:
    """The legend was, at both sides, when all modes of the demo were in it."""
    modes = [f"as long as the longest mode {number}" for number in range(4)]
    rows = [f"{at},add,0.1,home,{mode},7" for mode in modes for at in (1, 2)]
    samples.write_text(HEADER + "\n".join(rows) + "\n")
    output = tmp_path / "out.png"
    response_times([samples], output)
    with Image.open(output) as picture:
        left, top, right, bottom = ImageOps.invert(picture.convert("RGB")).getbbox() or (0,) * 4
        assert 1 < left < right < picture.width - 1
        assert 1 < top < bottom < picture.height - 1


def test_a_wrong_line_is_named(samples: Path) -> None:
    samples.write_text(HEADER + "1,add,fast,home,with,6\n")
    with pytest.raises(UsageError, match=r"notes.csv:2 is not a sample.*columns are iteration"):
        read_samples(samples)


def test_nothing_to_draw_is_said(samples: Path, tmp_path: Path) -> None:
    samples.write_text(HEADER)
    with pytest.raises(UsageError, match="no samples"):
        response_times([samples], tmp_path / "out.png")
    with pytest.raises(NotFoundError, match=r"absent.csv"):
        response_times([tmp_path / "absent.csv"], tmp_path / "out.png")
