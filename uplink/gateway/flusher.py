# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Lets held uploads go, in the order of their acceptance, and finds out what came of each."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from satchel.errors import SatchelError
from uplink.gateway.accounts import Account, Accounts
from uplink.gateway.conflicts import RemoteState, compare, copy_path, same_bytes
from uplink.gateway.home_help import HomeHelp
from uplink.gateway.radio_watch import RadioWatch
from uplink.gateway.spool import Spool
from uplink.policy import (
    Batcher,
    Condition,
    Description,
    Outcome,
    Reason,
    StepAnswer,
    StepRequest,
    Upload,
    UploadState,
    run_dialogue,
)
from wire import Upstream

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 600.0
"""Seconds after a try that did not come through; doubled each time."""

FLUSH_CHECK_SECONDS, POWER_SECONDS = 60.0, 2.0
COPIES = 20
"""Names that are tried for a conflict copy."""

WAITS = 120.0
"""Seconds for which a request that cannot go before an upload waits for that."""

LEAST_HELPED = 256 << 10
"""Bytes of a file that is worth home's questions."""

ANSWER_LIMIT = 1 << 20
PIECE = 1 << 18

HELD_ETAG = "uplink-"


class _NotNow(Exception):
    """The service does not take uploads at the moment."""


@dataclass(frozen=True)
class DevicePower:
    """The energy and the connection of the device, as its owner reports them.

    plenty: return whether uploads need not be held to save energy
    wait:   return when uploads may continue, soon after the event is set at the latest
    """

    plenty: Callable[[], bool]
    wait: Callable[[threading.Event], None]


class Flusher:
    """See the module. One thread of its own; every method may be called by any."""

    def __init__(
        self,
        spool: Spool,
        batcher: Batcher,
        accounts: Accounts,
        radio: RadioWatch,
        *,
        upstream: Callable[[str], Upstream],
        description: Callable[[str], Description],
        changed: Callable[[Upload], None],
        device: str,
        helper: Callable[[str], HomeHelp | None] = lambda service: None,
        power: DevicePower | None = None,
    ) -> None:
        """helper: home, where it helps with a service. upstream, description: of a service by
        name, NotFoundError for others. changed: is told
        of each upload that came through. device: what conflict copies name; power: what the device
        can afford, None: nobody says"""
        self._power = power
        self._spool, self._batcher, self._accounts, self._radio = spool, batcher, accounts, radio
        self._upstream, self._description, self._changed = upstream, description, changed
        self._device, self._helper = device, helper
        self.helped = 0
        self._state = threading.Condition()
        self._wanted: Reason | None = None
        self._asked = self._done = 0
        self._bursts = self._waiters = self._waiting = 0
        self._hold_until = self._pause_until = 0.0
        self._pause = FIRST_PAUSE
        self._closing = threading.Event()
        self.reasons: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="uplink flusher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        with self._state:
            self._state.notify_all()
        self._thread.join(WAITS)

    def accepted(self, upload: Upload, *, awake: bool) -> None:
        """An upload is held from now on. awake: whether the interface was, before it came."""
        self._radio.held(upload.size)
        held = sum(each.size for each in self._spool.pending())
        reason = self._batcher.accepted(held, awake=awake)
        if reason or self._plenty:
            self._want(reason or Reason.PLENTY)
        with self._state:
            self._state.notify_all()  # its deadline may be the first

    def awake(self) -> None:
        """The interface was woken by something that could not wait."""
        if self._waiters or self._spool.pending():
            self._want(Reason.AWAKE)

    def wait(self, size: int, seconds: float) -> None:
        """Until a batch goes, of which a request of so many bytes is to be a part, or for so
        long."""
        self._radio.held(size)
        held = sum(each.size for each in self._spool.pending())
        with self._state:
            burst = self._bursts
            self._waiters, self._waiting = self._waiters + 1, self._waiting + size
            reason = self._batcher.accepted(held + self._waiting)
            if reason:
                self._want(reason)
            self._state.wait_for(lambda: self._bursts != burst or self._closing.is_set(), seconds)
            self._waiters, self._waiting = self._waiters - 1, self._waiting - size

    def hold(self, seconds: float) -> None:
        """Let nothing go for so long but what somebody asks for; 0: as usual again."""
        with self._state:
            self._hold_until = time.monotonic() + seconds
            self._state.notify_all()

    def flush(self, reason: Reason, *, wait: float = WAITS) -> bool:
        """Let all go now, and wait until each was tried. Whether that was in time."""
        with self._state:
            self._wanted = reason
            self._asked += 1
            ticket = self._asked
            self._state.notify_all()
            return self._state.wait_for(
                lambda: self._done >= ticket or self._closing.is_set(), wait
            )

    def status(self) -> dict[str, Any]:
        with self._state:
            now = time.monotonic()
            return {
                "holding_seconds": round(max(0.0, self._hold_until - now), 1),
                "pause_seconds": round(max(0.0, self._pause_until - now), 1),
                "rate_mbps": round(self._batcher.rate, 3),
                "flushes": dict(self.reasons),
            }

    @property
    def _plenty(self) -> bool:
        return self._power is not None and self._power.plenty()

    def _want(self, reason: Reason) -> None:
        with self._state:
            if self._wanted is None:
                self._wanted = reason
                self._state.notify_all()

    def _run(self) -> None:
        while (reason := self._next()) is not None:
            with self._state:
                ticket = self._asked
                self._bursts += 1
                self._state.notify_all()
            try:
                self._flush_all(reason)
            except Exception:
                logger.exception("uploads wait: a flush ended")
                self._wait_longer()
            with self._state:
                self._done = ticket
                self._state.notify_all()

    def _next(self) -> Reason | None:
        """Why to flush now; None at the end."""
        with self._state:
            while not self._closing.is_set():
                now = time.monotonic()
                forced = self._asked > self._done
                quiet = max(self._hold_until, self._pause_until)
                if forced or (self._wanted is not None and now >= quiet):
                    reason, self._wanted = self._wanted or Reason.ASKED, None
                    return reason
                pending = self._spool.pending()
                oldest = min((upload.accepted for upload in pending), default=time.time())
                due = self._batcher.waited(oldest, time.time()) if pending else None
                if pending and self._plenty:
                    due = Reason.PLENTY
                if due is not None and now >= quiet:
                    return due
                rest = quiet - now if now < quiet else self._batcher.deadline
                rest -= time.time() - oldest if now >= quiet else 0.0
                look = POWER_SECONDS if pending and self._power else FLUSH_CHECK_SECONDS
                self._state.wait(min(look, max(0.05, rest)))
            return None

    def _flush_all(self, reason: Reason) -> None:
        pending = self._spool.pending()
        if not pending:
            return
        self.reasons[reason.value] = self.reasons.get(reason.value, 0) + 1
        silent: set[str] = set()
        began, size = time.monotonic(), 0
        self._radio.flushing(True)
        try:
            for upload in pending:
                if self._closing.is_set():
                    return
                if upload.service in silent:
                    continue
                self._await_power()
                try:
                    self._send(upload)
                    size += upload.size
                except _NotNow as error:
                    silent.add(upload.service)
                    logger.warning("uploads to %s wait: %s", upload.service, error)
        finally:
            self._radio.flushing(False)
        self._batcher.sent(size, time.monotonic() - began)
        if silent:
            self._wait_longer()
        else:
            self._pause = FIRST_PAUSE

    def _await_power(self) -> None:
        """While the device goes to sleep, nothing goes that can wait."""
        if self._power is not None:
            self._power.wait(self._closing)

    def _wait_longer(self) -> None:
        with self._state:
            self._pause_until = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._wanted = self._wanted or Reason.DEADLINE

    def _send(self, upload: Upload) -> None:
        """One upload, to whatever end. Raises _NotNow where it waits on."""
        account = self._accounts.get(upload.service, upload.account)
        if upload.account and account.authorization is None:
            return  # until a program of the account asks again
        body = self._spool.body(upload)
        upload = self._spool.move(upload.number, UploadState.FLUSHING)
        try:
            upstream, described = self._upstream(upload.service), self._description(upload.service)
            if not same_bytes(upload, body):
                self._fail(upload, "its bytes in the spool have changed")
                return
            job = _Job(upstream, described, account, upload, body, self._device, self._await_power)
            helper = self._helper(upload.service)
            self._settle(upload, account, job.run(helper), job)
            self.helped += job.helped
        except (SatchelError, OSError) as error:
            self._spool.move(upload.number, UploadState.HELD, why=str(error))
            raise _NotNow(str(error)) from error

    def _settle(self, upload: Upload, account: Account, outcome: Outcome, job: _Job) -> None:
        number = upload.number
        if outcome is Outcome.DONE:
            with account.guard:
                if job.etag:
                    account.knowledge.file(upload.path, job.etag)
                    account.alias(held_etag(upload), job.etag)
                else:
                    account.knowledge.forget(upload.path)
            self._changed(upload)
            self._spool.move(number, UploadState.CONFIRMED)
        elif outcome is Outcome.CONFLICT:
            with account.guard:
                account.knowledge.forget(upload.path)
            self._changed(upload)
            self._spool.move(number, UploadState.CONFLICT, copy=job.copy)
            logger.warning(
                "somebody else has changed %s of %s: what was uploaded here is %s",
                upload.path, upload.service, job.copy,
            )  # fmt: skip
        elif outcome is Outcome.ACCESS:
            with account.guard:
                account.authorization = None
            self._spool.move(number, UploadState.HELD, why="the service wants another password")
        elif outcome is Outcome.LATER:
            self._spool.move(number, UploadState.HELD, why=job.why)
            raise _NotNow(job.why)
        else:
            self._fail(upload, job.why)

    def _fail(self, upload: Upload, why: str) -> None:
        self._spool.move(upload.number, UploadState.FAILED, why=why)
        logger.error("%s of %s is not uploaded: %s", upload.path, upload.service, why)


class _Job:
    """One try of an upload. etag: that the service gave; copy: path of the conflict copy; why: it
    did not come through; helped: home has uploaded it"""

    def __init__(
        self,
        upstream: Upstream,
        description: Description,
        account: Account,
        upload: Upload,
        body: Path,
        device: str,
        before_piece: Callable[[], None],
    ) -> None:
        self._before_piece = before_piece
        self._upstream, self._description, self._account = upstream, description, account
        self.upload, self._body, self._device = upload, body, device
        self.etag = self.copy = self.why = ""
        self.helped = self._unsure = False

    def run(self, helper: HomeHelp | None) -> Outcome:
        """helper: home, where it may help. Raises ServiceUnreachable, OSError, BadDescription."""
        outcome = self._through(helper) if helper and helper.there else None
        if outcome is None:
            outcome = self._dialogue(self.upload.path, self.upload.condition)
        if outcome is not Outcome.CONFLICT:
            return outcome
        if self.upload.tries > 1 or self._unsure:
            found, etag = self._look(self.upload.path)
            if found is RemoteState.OURS:
                self.etag = etag
                return Outcome.DONE
            if found is RemoteState.TORN and etag:
                outcome = self._dialogue(self.upload.path, Condition(etag))
                if outcome is not Outcome.CONFLICT:
                    return outcome
        return self._conflict_copy()

    def _through(self, helper: HomeHelp) -> Outcome | None:
        """Home puts the file together and uploads it; None where it does not, and we have to."""
        upload, user = self.upload, self._account.user
        if upload.size < LEAST_HELPED or not upload.condition.etag or user is None:
            return None
        try:
            verdict = helper.upload(upload, user, self._body)
        except SatchelError as error:
            self._unsure = True
            helper.failed(error)
            logger.warning("%s does not go through home: %s", upload.path, error)
            return None
        if verdict.outcome not in (Outcome.DONE, Outcome.CONFLICT):
            return None
        self.helped = verdict.outcome is Outcome.DONE
        self.etag, self.why = verdict.etag, verdict.why
        return verdict.outcome

    def _conflict_copy(self) -> Outcome:
        for attempt in range(COPIES):
            self.copy = copy_path(self.upload, self._device, attempt)
            outcome = self._dialogue(self.copy, Condition())
            if outcome is Outcome.DONE:
                return Outcome.CONFLICT
            if outcome is not Outcome.CONFLICT:
                return outcome
            if self._look(self.copy)[0] is RemoteState.OURS:
                return Outcome.CONFLICT
        self.why = "there is no name left for a conflict copy"
        return Outcome.REFUSED

    def _dialogue(self, path: str, condition: Condition) -> Outcome:
        """The description's, once. Raises as `run`."""
        upload = self.upload
        values = {"path": path, "size": str(upload.size), "sha256": upload.sha256}
        headers = dict(upload.headers)
        verdict = run_dialogue(self._description, values, headers, condition, self._ask)
        self.why, self.etag = verdict.why, verdict.etag
        return verdict.outcome

    def _ask(self, step: StepRequest) -> StepAnswer:
        empty: Iterable[bytes] | None = [] if step.method == "POST" else None
        body = self._pieces() if step.content else empty
        size = self.upload.size if step.content else 0
        headers = dict(step.headers) | self._authorization()
        with self._upstream.ask(step.method, step.target, headers.items(), body, size) as answer:
            return StepAnswer(answer.status, answer.named, answer.beginning(ANSWER_LIMIT))

    def _look(self, path: str) -> tuple[RemoteState, str]:
        """What the service has there, and its strong etag."""
        with self._upstream.ask("GET", path, self._authorization().items()) as answer:
            if answer.status != 200:
                return RemoteState.OTHER, ""
            etag = answer.named.get("etag", "")
            found = compare(answer.body, self.upload, self._body)
            return found, etag if etag.startswith('"') else ""

    def _authorization(self) -> dict[str, str]:
        known = self._account.authorization
        return {"Authorization": known} if known else {}

    def _pieces(self) -> Iterator[bytes]:
        with self._body.open("rb") as file:
            while piece := file.read(PIECE):
                self._before_piece()
                yield piece


def held_etag(upload: Upload) -> str:
    """What programs are told of a file that is held."""
    return f'"{HELD_ETAG}{upload.sha256[:32]}"'
