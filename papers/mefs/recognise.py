# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A recogniser of faces whose training set is a folder, with OpenCV and its cascades. A program of
its own, for Debian's Python, which has OpenCV:

    python3 recognise.py make FOLDER PEOPLE PICTURES    a training set: FOLDER/PERSON/NUMBER.png
    python3 recognise.py frames FOLDER PEOPLE WIDTH HEIGHT COUNT    frames of a video of them
    python3 recognise.py serve FOLDER    for each line, the path of a frame: whose face is on it

There are no photos of people: the faces are drawn, each person's from numbers of their own, and
such that OpenCV's cascade for frontal faces finds them. What it has recognised, `serve` puts into
the training set (MEFS, Section V.C: progressive knowledge).
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2  # type: ignore[import-not-found]
import numpy as np

CASCADE = "/usr/share/opencv4/haarcascades/haarcascade_frontalface_default.xml"
SIZE = 160
FACE = (100, 100)
LEAST = 60

Picture = Any
"""A grey picture, as OpenCV has it."""


def drawn(person: int, turn: int) -> Picture:
    """That person's face, another time each turn."""
    own, now = random.Random(person), random.Random(person * 1000 + turn)
    picture = np.full((SIZE, SIZE), now.randint(150, 200), np.uint8)
    centre = SIZE // 2 + now.randint(-4, 4), SIZE // 2 + now.randint(-4, 4)
    skin = own.randint(180, 225)
    wide, high = int(SIZE * own.uniform(0.27, 0.33)), int(SIZE * own.uniform(0.36, 0.42))
    cv2.ellipse(picture, centre, (wide + 6, high + 6), 0, 180, 360, own.randint(10, 70), -1)
    cv2.ellipse(picture, centre, (wide, high), 0, 0, 360, skin, -1)
    eyes = _eyes(picture, own, centre, wide, high, skin)
    nose = centre[1] + int(high * own.uniform(0.12, 0.22))
    bridge = own.randint(5, 11)
    half = (nose - eyes) // 2
    light = min(255, skin + 25)
    cv2.ellipse(picture, (centre[0], eyes + half), (bridge - 1, half), 0, 0, 360, light, -1)
    cv2.ellipse(picture, (centre[0], nose), (bridge + 3, 5), 0, 0, 180, skin - 70, -1)
    mouth = centre[1] + int(high * own.uniform(0.48, 0.58))
    lips = int(wide * own.uniform(0.32, 0.5)), own.randint(4, 9)
    cv2.ellipse(picture, (centre[0], mouth), lips, 0, 0, 360, skin - 90, -1)
    cv2.ellipse(picture, (centre[0], mouth + 13), (wide // 3, 4), 0, 0, 360, skin - 35, -1)
    picture = cv2.GaussianBlur(picture, (7, 7), 0)
    turned = cv2.getRotationMatrix2D(centre, now.uniform(-4, 4), now.uniform(0.95, 1.05))
    picture = cv2.warpAffine(picture, turned, (SIZE, SIZE), borderMode=cv2.BORDER_REPLICATE)
    noise = np.random.default_rng(person * 1000 + turn).normal(0, 4, picture.shape)
    return np.clip(picture * now.uniform(0.9, 1.08) + noise, 0, 255).astype(np.uint8)


def _eyes(
    picture: Picture, own: random.Random, centre: tuple[int, int], wide: int, high: int, skin: int
) -> int:
    """How far down they are."""
    aside, at = int(wide * own.uniform(0.4, 0.52)), centre[1] - int(high * own.uniform(0.16, 0.26))
    eye = int(wide * own.uniform(0.2, 0.27)), int(high * own.uniform(0.08, 0.12))
    brow = own.randint(3, 6)
    for across in (centre[0] - aside, centre[0] + aside):
        cv2.ellipse(picture, (across, at - 2), (eye[0] + 6, eye[1] + 9), 0, 0, 360, skin - 55, -1)
        cv2.ellipse(picture, (across, at), eye, 0, 0, 360, skin - 25, -1)
        cv2.circle(picture, (across, at), eye[1], 20, -1)
        above = across, at - eye[1] - 7
        cv2.ellipse(picture, above, (eye[0] + 4, brow), 0, 180, 360, 25, -1)
    return at


def make(folder: Path, people: int, pictures: int) -> None:
    for person in range(people):
        (folder / f"{person}").mkdir(parents=True)
        for turn in range(pictures):
            cv2.imwrite(str(folder / f"{person}" / f"{turn:04}.png"), drawn(person, turn))


def frames(folder: Path, people: int, width: int, height: int, count: int) -> None:
    """FOLDER/PERSON-NUMBER.jpg"""
    folder.mkdir(parents=True)
    for number in range(count):
        person, chance = number % people, np.random.default_rng(number)
        frame = cv2.GaussianBlur(
            chance.integers(60, 200, (height, width), dtype=np.uint8), (31, 31), 0
        )
        x, y = int(chance.integers(width - SIZE)), int(chance.integers(height - SIZE))
        frame[y : y + SIZE, x : x + SIZE] = drawn(person, 500 + number)
        path = folder / f"{person}-{number}.jpg"
        cv2.imwrite(str(path), frame, [cv2.IMWRITE_JPEG_QUALITY, 90])


class Recogniser:
    """Of the training set in a folder, as it is at the time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cascade = cv2.CascadeClassifier(CASCADE)
        self._known: dict[Path, int] = {}  # and when it was written
        self._model = cv2.face.LBPHFaceRecognizer_create()
        self._trained = False
        self._turn = 1000

    def who(self, frame: Path) -> tuple[int, float]:
        """Whose face is on it, -1: none; and the seconds that the training set took."""
        began = time.perf_counter()
        self._learn()
        learned = time.perf_counter() - began
        face = self._face(cv2.imread(str(frame), cv2.IMREAD_GRAYSCALE))
        if face is None:
            return -1, learned
        person, _ = self._model.predict(face)
        self._turn += 1
        began = time.perf_counter()
        _, data = cv2.imencode(".png", face)
        (self._folder / f"{person}" / f"{self._turn}.png").write_bytes(data.tobytes())
        return int(person), learned + time.perf_counter() - began

    def _face(self, picture: Picture) -> Picture | None:
        found = self._cascade.detectMultiScale(picture, 1.1, 3, minSize=(LEAST, LEAST))
        if len(found) == 0:
            return None
        x, y, wide, high = max(found, key=lambda each: int(each[2]))
        return cv2.resize(picture[y : y + high, x : x + wide], FACE)

    def _learn(self) -> None:
        faces, people = [], []
        for path in sorted(self._folder.glob("*/*.png")):
            written = path.stat().st_mtime_ns
            if self._known.get(path) == written:
                continue
            self._known[path] = written
            data = np.frombuffer(path.read_bytes(), np.uint8)
            picture = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)
            face = cv2.resize(picture, FACE) if picture.shape == FACE else self._face(picture)
            if face is not None:
                faces.append(face)
                people.append(int(path.parent.name))
        if faces:
            learn = self._model.update if self._trained else self._model.train
            learn(faces, np.array(people))
            self._trained = True


def serve(folder: Path) -> None:
    recogniser = Recogniser(folder)
    for line in sys.stdin:
        began = time.perf_counter()
        person, files = recogniser.who(Path(line.strip()))
        seconds = time.perf_counter() - began
        print(json.dumps({"person": person, "seconds": seconds, "files": files}), flush=True)


if __name__ == "__main__":
    WHAT: dict[str, Callable[..., None]] = {"make": make, "frames": frames, "serve": serve}
    WHAT[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
