# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The photo application of OFS's Section 5, with Pillow: a folder of photos is enhanced.

    python -m papers.ofs.photo take FOLDER COUNT    photos as a camera leaves them, in inbox/
    python -m papers.ofs.photo shoot FOLDER COUNT   photographs of 2, 5 and 10 megapixels, in turn
    python -m papers.ofs.photo enhance FOLDER       each of them in steps, from file to file
    python -m papers.ofs.photo look FOLDER COUNT    read each result, as soon as it is there
    python -m papers.ofs.photo both FOLDER COUNT    enhance and look, in one process
    python -m papers.ofs.photo sheet FOLDER         a page of all small pictures

With --wait before these words it says `ready`, and begins when it is sent a line.
The steps of a photo are files in work/, the results are in enhanced/ and small/. Each command can
run on another node of a shared tree than the others: they know of each other by files alone.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageEnhance, ImageFilter, ImageOps

SIZE = (640, 480)
PHOTOGRAPHS = ((1672, 1254), (2592, 1944), (3600, 2700))
"""Pixels of those in OFS's Section 6.2: 2.1, 5.0 and 9.7 million."""

LARGE = 1_000_000
"""Pixels from which on the steps are JPEGs too; as PNGs they would be 20 MB each."""

SMALL = (120, 90)
PER_ROW = 6
FRAME_POLL_SECONDS = 0.002

Step = Callable[[Image.Image], Image.Image]

STEPS: dict[str, Step] = {
    "denoise": lambda image: image.filter(ImageFilter.MedianFilter(3)),
    "contrast": lambda image: ImageOps.autocontrast(image, cutoff=1),
    "colour": lambda image: ImageEnhance.Color(image).enhance(1.3),
    "sharpen": lambda image: image.filter(ImageFilter.UnsharpMask(2, 120)),
}


def name_of(number: int) -> str:
    """Of a photo, in inbox/ and where its results are."""
    return f"photo-{number:03}.jpg"


def take(folder: Path, number: int, size: tuple[int, int] = SIZE) -> Path:
    """A photo in inbox/: noise on a landscape, the same for the same number and size."""
    dice = random.Random(number)
    left = dice.uniform(-2.0, -1.0)
    area = (left, dice.uniform(-1.5, -0.8), left + 2.2, 1.0)
    colours = [Image.effect_mandelbrot(size, area, dice.randint(20, 60)) for _ in range(3)]
    image = Image.merge("RGB", colours)
    noise = Image.frombytes("L", size, dice.randbytes(size[0] * size[1])).convert("RGB")
    path = folder / "inbox" / name_of(number)
    path.parent.mkdir(exist_ok=True)
    Image.blend(image, noise, 0.12).save(path, quality=88)
    return path


def enhance(folder: Path, photo: Path) -> Path:
    """All steps, each from a file to the next one; then the result and its small picture."""
    for name in ("work", "enhanced", "small"):
        (folder / name).mkdir(exist_ok=True)
    source = photo
    for step, change in STEPS.items():
        with Image.open(source) as image:
            large = image.width * image.height >= LARGE
            target = folder / "work" / f"{photo.stem}.{step}.{'jpg' if large else 'png'}"
            # Of the other format each of the two means nothing.
            change(image.convert("RGB")).save(target, quality=95, compress_level=1)
        source = target
    result = folder / "enhanced" / photo.name
    with Image.open(source) as image:
        image.save(result, quality=92)
        image.thumbnail(SMALL)
        image.save(folder / "small" / photo.name, quality=80)
    with (folder / "done.txt").open("a", encoding="utf-8") as done:
        done.write(f"{photo.name}\n")
    return result


def waiting(folder: Path) -> list[Path]:
    """Photos that nobody has enhanced yet."""
    done = folder / "done.txt"
    names = set(done.read_text(encoding="utf-8").split()) if done.exists() else set()
    return [path for path in sorted((folder / "inbox").glob("*.jpg")) if path.name not in names]


def look(folder: Path, count: int) -> int:
    """Wait for the results of so many photos, and read each and its small picture as it comes; how
    many bytes they are. done.txt is there."""
    size, seen, text = 0, 0, b""
    with (folder / "done.txt").open("rb", buffering=0) as done:
        while seen < count:
            text += done.read()
            names = text.decode().split("\n")[:-1]
            for name in names[seen:]:
                size += len((folder / "enhanced" / name).read_bytes())
                size += len((folder / "small" / name).read_bytes())
            if len(names) == seen:
                time.sleep(FRAME_POLL_SECONDS)
            seen = len(names)
    return size


def sheet(folder: Path) -> Path:
    """All small pictures on one page."""
    pictures = sorted((folder / "small").glob("*.jpg"))
    rows = -(-len(pictures) // PER_ROW)
    page = Image.new("RGB", (PER_ROW * SMALL[0], max(1, rows) * SMALL[1]), "white")
    for number, path in enumerate(pictures):
        with Image.open(path) as picture:
            page.paste(picture, (number % PER_ROW * SMALL[0], number // PER_ROW * SMALL[1]))
    page.save(folder / "sheet.jpg", quality=85)
    return folder / "sheet.jpg"


def program(what: str, folder: Path, count: int = 0) -> None:
    """The command line."""
    if what in {"take", "shoot"}:
        sizes = PHOTOGRAPHS if what == "shoot" else (SIZE,)
        for number in range(count):
            take(folder, number, sizes[number % len(sizes)])
        (folder / "done.txt").touch()
    if what in {"enhance", "both"}:
        for photo in waiting(folder):
            enhance(folder, photo)
    if what in {"look", "both"}:
        look(folder, count)
    if what == "sheet":
        sheet(folder)


if __name__ == "__main__":
    WORDS = sys.argv[1:]
    if WORDS[0] == "--wait":
        WORDS.pop(0)
        print("ready", flush=True)
        sys.stdin.readline()
    program(WORDS[0], Path(WORDS[1]), *map(int, WORDS[2:]))


__all__ = ["STEPS", "enhance", "look", "name_of", "program", "sheet", "take", "waiting"]
