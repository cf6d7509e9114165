# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The states of a wireless interface, and a ledger of what they cost.

    idle --traffic--> promotion --promoted--> active --last byte--> tail (stages) --quiet--> idle
                                                ^                     |
                                                +------ traffic ------+

A transfer that finds the interface idle pays for the promotion; each pause after a transfer is paid
at the power of the tail's stages, until the tail is over or the next transfer begins. So many small
transfers far apart cost a promotion and a whole tail each (StoArranger, section III, finding 1).

Joules are a model's. Models are data, `radios.toml`, each with its source.
"""

from __future__ import annotations

import copy
import tomllib
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Any

from satchel.errors import UsageError

BITS_PER_MB = 8.0
"""Megabits of a megabyte, which has 10^6 bytes."""


class BadRadio(UsageError):
    """The model of a radio is wrong."""


class RadioState(Enum):
    IDLE = "idle"
    PROMOTION = "promotion"
    ACTIVE = "active"
    TAIL = "tail"


@dataclass(frozen=True)
class TailStage:
    """Part of a tail. seconds: how long; watts: at which power"""

    seconds: float
    watts: float


@dataclass(frozen=True)
class RadioModel:
    """What an interface draws above what the device draws without it.

    alpha_up, alpha_down: watts for each megabit a second of throughput; beta: watts of a transfer
    at throughput zero; promotion, tail: before and after transfers; rate: megabits a second up, in
    practice; source: who measured it
    """

    name: str
    alpha_up: float
    alpha_down: float
    beta: float
    promotion: TailStage
    tail: tuple[TailStage, ...]
    rate: float
    source: str

    @property
    def overhead_joules(self) -> float:
        """A promotion and a whole tail: the paper's rho T_pt."""
        return sum(stage.seconds * stage.watts for stage in (self.promotion, *self.tail))

    @property
    def tail_seconds(self) -> float:
        return sum(stage.seconds for stage in self.tail)

    def up_watts(self, rate: float) -> float:
        """While bytes go up at so many megabits a second."""
        return self.alpha_up * rate + self.beta

    def down_watts(self, rate: float) -> float:
        return self.alpha_down * rate + self.beta

    def tail_joules(self, seconds: float) -> float:
        """Of the first so many seconds of a tail."""
        spent = 0.0
        for stage in self.tail:
            part = min(max(seconds, 0.0), stage.seconds)
            spent += part * stage.watts
            seconds -= part
        return spent


@dataclass
class Ledger:
    """Joules and seconds by state, and how often the interface was promoted."""

    joules: dict[RadioState, float] = field(default_factory=lambda: dict.fromkeys(RadioState, 0.0))
    seconds: dict[RadioState, float] = field(default_factory=lambda: dict.fromkeys(RadioState, 0.0))
    promotions: int = 0

    @property
    def total(self) -> float:
        return sum(self.joules.values())

    @property
    def awake_seconds(self) -> float:
        return sum(s for state, s in self.seconds.items() if state is not RadioState.IDLE)

    def add(self, state: RadioState, seconds: float, watts: float) -> None:
        self.seconds[state] += seconds
        self.joules[state] += seconds * watts


class Interface:
    """One interface as its model has it, driven by its transfers. Times are seconds of any clock
    that does not go back. One thread at a time."""

    def __init__(self, model: RadioModel) -> None:
        self.model = model
        self.ledger = Ledger()
        self._quiet_since: float | None = None

    def transfer(
        self, begin: float, *, up: int = 0, down: int = 0, rate: float | None = None
    ) -> float:
        """Bytes that went up, then bytes that came down, from `begin` on, or from the end of the
        transfer before it where that is later. rate: megabits a second [default: the model's].
        Returns when it is over."""
        rate = rate or self.model.rate
        start = self._wake(begin)
        seconds_up = up / 1e6 * BITS_PER_MB / rate
        seconds_down = down / 1e6 * BITS_PER_MB / rate
        self.ledger.add(RadioState.ACTIVE, seconds_up, self.model.up_watts(rate))
        self.ledger.add(RadioState.ACTIVE, seconds_down, self.model.down_watts(rate))
        self._quiet_since = start + seconds_up + seconds_down
        return self._quiet_since

    def state(self, now: float) -> RadioState:
        """Between transfers: tail or idle; while one is under way by its own end: active."""
        if self._quiet_since is None:
            return RadioState.IDLE
        if now < self._quiet_since:
            return RadioState.ACTIVE
        quiet = now - self._quiet_since
        return RadioState.TAIL if quiet < self.model.tail_seconds else RadioState.IDLE

    def settle(self, now: float) -> Ledger:
        """A ledger of what was spent until `now`, with the tail up to there."""
        so_far = copy.deepcopy(self.ledger)
        if self._quiet_since is not None:
            self._tail(max(0.0, now - self._quiet_since), so_far)
        return so_far

    def finish(self) -> Ledger:
        """What was spent once the tail of the last transfer is over."""
        if self._quiet_since is not None:
            self._tail(self.model.tail_seconds, self.ledger)
            self._quiet_since = None
        return self.ledger

    def _wake(self, begin: float) -> float:
        """When bytes can go. Pays for the tail of the transfer before, and for a promotion where
        that was over."""
        if self._quiet_since is not None:
            begin = max(begin, self._quiet_since)
            quiet = begin - self._quiet_since
            self._tail(quiet, self.ledger)
            if quiet < self.model.tail_seconds:
                return begin
        promotion = self.model.promotion
        self.ledger.promotions += 1
        self.ledger.add(RadioState.PROMOTION, promotion.seconds, promotion.watts)
        return begin + promotion.seconds

    def _tail(self, quiet: float, ledger: Ledger) -> None:
        seconds = min(quiet, self.model.tail_seconds)
        ledger.seconds[RadioState.TAIL] += seconds
        ledger.joules[RadioState.TAIL] += self.model.tail_joules(seconds)


def read_radios(text: str, where: str = "radios.toml") -> dict[str, RadioModel]:
    """Models by name, of a text as `radios.toml` is. Raises BadRadio."""
    try:
        table = tomllib.loads(text)
        return {name: _model(name, fields) for name, fields in table.items()}
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadRadio(f"cannot read {where}", why=str(error)) from error


def built_in_radios() -> dict[str, RadioModel]:
    """Those that come with the package: `3g`, `4g`, `wifi`."""
    return read_radios(resources.files("uplink.policy").joinpath("radios.toml").read_text("utf-8"))


_NUMBERS = ("alpha-up", "alpha-down", "beta", "rate")


def _model(name: str, fields: Any) -> RadioModel:
    known = {*_NUMBERS, "promotion", "tail", "source"}
    if not isinstance(fields, dict) or set(fields) != known:
        keys = ", ".join(sorted(known))
        raise BadRadio(f"the radio {name} is not a model", why=f"it needs exactly {keys}")
    numbers = {key: _positive(name, key, fields[key]) for key in _NUMBERS}
    tail = fields["tail"]
    if not isinstance(tail, list) or not tail:
        raise BadRadio(f"the radio {name} has no tail", why="tail is a list of stages")
    return RadioModel(
        name=name,
        alpha_up=numbers["alpha-up"] / 1e3,
        alpha_down=numbers["alpha-down"] / 1e3,
        beta=numbers["beta"] / 1e3,
        promotion=_stage(name, fields["promotion"]),
        tail=tuple(_stage(name, stage) for stage in tail),
        rate=numbers["rate"],
        source=str(fields["source"]),
    )


def _stage(name: str, value: Any) -> TailStage:
    if not isinstance(value, dict) or set(value) != {"ms", "mw"}:
        raise BadRadio(f"the radio {name} has a bad stage", why="a stage has ms and mw")
    numbers = [_positive(name, key, value[key]) for key in ("ms", "mw")]
    return TailStage(numbers[0] / 1e3, numbers[1] / 1e3)


def _positive(name: str, key: str, value: Any) -> float:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9
    if not good:
        raise BadRadio(
            f"the radio {name} has a bad {key}", why=f"{value!r} is not a positive number"
        )
    return float(value)
