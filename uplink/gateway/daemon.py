# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""All parts of uplink together, from start to end."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

from satchel.errors import NotFoundError, SatchelError
from satchel.typed import Form
from uplink.gateway.accounts import Accounts
from uplink.gateway.catalog import ServiceCatalog
from uplink.gateway.entries import Entries
from uplink.gateway.file_cache import FileCache
from uplink.gateway.flusher import DevicePower, Flusher
from uplink.gateway.gateway import Gateway
from uplink.gateway.home_help import HomeHelp
from uplink.gateway.programs import Programs, Rules
from uplink.gateway.radio_watch import RadioWatch
from uplink.gateway.request_forwarder import RequestForwarder
from uplink.gateway.settings import UplinkSettings
from uplink.gateway.spool import Spool
from uplink.gateway.trees import Trees
from uplink.policy import Batcher, RadioModel, Reason, UploadState, built_in_radios, read_radios
from wire import Acceptor, Link, listen_local

MIB = 1 << 20
_FORM = Form()


class UplinkDaemon:
    """Serves programs from its construction until `close`. Any thread may call."""

    def __init__(
        self,
        settings: UplinkSettings,
        device: str,
        home: Link | None = None,
        entries: Path | None = None,
        power: DevicePower | None = None,
    ) -> None:
        """device: names conflict copies; home: helps with services that say so; entries: a socket
        for `satchel uplink run --namespace`; power: what the device can afford. Raises
        SatchelError, OSError; nothing runs then."""
        self._parts = contextlib.ExitStack()
        with contextlib.ExitStack() as parts:
            self.radio = RadioWatch(_radio(settings))
            self.catalog = ServiceCatalog(settings, self.radio)
            parts.callback(self.catalog.close)
            self.accounts = Accounts()
            for name, service in settings.services.items():
                if service.credentials:
                    self.accounts.load(name, Path(service.credentials).expanduser())
            settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.spool = Spool(settings.state, settings.spool_mib * MIB)
            parts.callback(self.spool.close)
            self.cache = FileCache(settings.cache, settings.cache_mib * MIB)
            helper = HomeHelp(home, self.radio.transferred) if home else None
            self._home = home
            self.trees = Trees(helper)
            self.forwarding = RequestForwarder(self.spool, self.cache, self.trees)
            model = self.radio.model
            self.flusher = Flusher(
                self.spool,
                Batcher(model, model.rate, deadline=settings.deadline_minutes * 60),
                self.accounts,
                self.radio,
                upstream=self.catalog.upstream,
                description=self.catalog.description,
                changed=lambda upload: self.forwarding.changed(
                    upload.service, upload.account, upload.path
                ),
                device=device,
                power=power,
                helper=lambda service: helper if self.catalog.helped(service) else None,
            )
            self.gateway = Gateway(
                self.catalog,
                self.accounts,
                self.spool,
                self.forwarding,
                self.flusher,
                self.radio,
                Programs(Rules(frozenset(settings.background), frozenset(settings.foreground))),
            )
            self._acceptor = Acceptor(listen_local(settings.port), self.gateway.adopt, "http port")
            self.flusher.start()
            parts.callback(self.flusher.close)
            parts.callback(self.gateway.close)
            self._acceptor.start()
            parts.callback(self._acceptor.close)
            if entries is not None:
                entered = Entries(entries, self.gateway.enter)
                parts.callback(entered.close)
            self._parts = parts.pop_all()
        self._closing = threading.Lock()

    @property
    def url(self) -> str:
        """Behind which programs put the name of a service."""
        return f"http://127.0.0.1:{self._acceptor.port}"

    def close(self) -> None:
        """What is held stays held."""
        with self._closing:
            self._parts.close()

    def status(self) -> dict[str, Any]:
        """What is held, and what came of what was."""
        uploads = self.spool.uploads()
        rows = [_FORM.plain(each) for each in uploads]
        counts = {state.value: 0 for state in UploadState}
        for upload in uploads:
            counts[upload.state.value] += 1
        return {
            "url": self.url,
            "services": {name: each.origin for name, each in self.catalog.upstreams.items()},
            "counts": counts,
            "held_bytes": sum(each.size for each in self.spool.pending()),
            "uploads": rows,
            "flusher": self.flusher.status(),
            "radio": self.radio.stats()["state"],
            "home": self._home.alive if self._home else None,
        }

    def stats(self) -> dict[str, Any]:
        """What was spent and saved since the daemon began; joules are a model's."""
        return {
            **self.radio.stats(),
            **self.cache.stats(),
            "listing_hits": self.forwarding.listings.hits,
            "trees": self.forwarding.trees,
            "trees_from_home": self.trees.helped,
            "files_through_home": self.flusher.helped,
            **self.gateway.counts,
            "flushes": dict(self.flusher.reasons),
        }

    def tunnelled(self, seconds: float, up: int, down: int) -> None:
        """A program of `satchel uplink run --namespace` sent and received so many bytes, in so many
        seconds until now, of which uplink has seen nothing."""
        self.radio.transferred(time.monotonic() - seconds, up, down)
        self.flusher.awake()

    def flush(self, *, failed: bool = False, wait: float = 600.0) -> dict[str, Any]:
        """Let all go that is held, and failed ones once more if that is asked for."""
        if failed:
            for upload in self.spool.uploads():
                if upload.state is UploadState.FAILED:
                    self.spool.move(upload.number, UploadState.HELD)
        in_time = self.flusher.flush(Reason.ASKED, wait=wait)
        return {"in_time": in_time, "held": len(self.spool.pending())}


def _radio(settings: UplinkSettings) -> RadioModel:
    radios = built_in_radios()
    try:
        radios |= read_radios(settings.radios.read_text("utf-8"), str(settings.radios))
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise SatchelError(f"cannot read {settings.radios}", why=str(error)) from error
    if settings.radio not in radios:
        known = ", ".join(sorted(radios))
        raise NotFoundError(
            f"there is no model of the radio {settings.radio}", why=f"known: {known}"
        )
    return radios[settings.radio]
