# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What every command of `satchel-home` has."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, TimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console import bar
from homeserver.settings import HomeSettings
from satchel.errors import SatchelError, UnavailableError, UsageError
from satchel.polling import PROGRESS_SECONDS

if TYPE_CHECKING:
    from chunkstore import Store
    from homeserver.home import Home
    from satchel.progress import Progress
    from wire import HttpClient


@dataclass(frozen=True)
class Context:
    """What every command has: the settings, and where the store is."""

    settings: HomeSettings
    store: Path

    def open_store(self) -> Store:
        """The store, for a command that works without the daemon."""
        from chunkstore import Store  # what talks to the daemon gets by without it

        return Store.open(self.store, level=0)

    def open_store_to_read(self) -> Store:
        """The same for a command that changes nothing: the disk may be full, or read-only."""
        from chunkstore import Store, StoreDamaged

        try:
            return Store.open_to_read(self.store)
        except StoreDamaged:  # an index that has to be made anew
            return self.open_store()

    @property
    def own_store(self) -> bool:
        """Whether the store is where the settings have the home's, not one that --store names."""
        return self.store == self.settings.store

    def require_own_store(self) -> None:
        """For commands about the home, whose checkpoints need its own store. Raises UsageError."""
        if not self.own_store:
            raise UsageError(
                f"a home works on its own store, and not on {self.store}",
                why="--store or SATCHEL_STORE names another",
                fix="leave it out: `data` in home.toml says where a home is, with its store",
            )

    def daemon(self) -> HttpClient:
        """The running daemon, or UnavailableError saying how to start it. Raises UsageError, and
        NotFoundError where there is no home to start it for."""
        self.require_own_store()
        if not self.settings.socket.exists():
            self.settings.require_home()
            raise UnavailableError(
                f"no home server answers at {self.settings.socket}",
                fix="start one with `satchel-home serve`",
            )
        from wire import HttpClient  # most commands get by without it

        return HttpClient(self.settings.socket, peer="the home server")

    @property
    def serving(self) -> bool:
        """Whether a daemon answers: what it has open has to be done by it."""
        if not self.settings.socket.exists():
            return False
        daemon = self.daemon()
        try:
            daemon.get_json("/v1/services")
        except UnavailableError:
            return False
        except SatchelError:
            return True
        return True

    @property
    def has_home(self) -> bool:
        """Whether the store is that of a home, with its services."""
        return self.own_store and self.settings.identity.exists()

    @property
    def serves_store(self) -> bool:
        """Whether the daemon has the store open."""
        return self.has_home and self.serving

    @contextmanager
    def home(self) -> Iterator[Home]:
        """The home itself, for a command that works without the daemon. No machine is started.
        Raises UsageError."""
        self.require_own_store()
        from homeserver.home import Home  # as `daemon` does: what most commands need not wait for
        from hypervisor import QemuDriver

        home = Home(self.settings, QemuDriver())
        try:
            yield home
        finally:
            home.close()

    def tend(
        self,
        title: str,
        path: str,
        body: Any,
        here: Callable[[Store, Progress], Any],
        *,
        quiet: bool,
        opened: Callable[[], Store] | None = None,
    ) -> Any:
        """What is done with the whole store: by the daemon, at that path, where it has it open;
        else by `here`, which says the same. opened: what opens it then, `open_store` by default."""
        if self.serves_store:
            return self.follow(title, path, body, quiet=quiet)
        with (opened or self.open_store)() as store, bar(title, quiet=quiet) as progress:
            return here(store, progress)

    def follow(self, title: str, path: str, body: Any, *, quiet: bool) -> Any:
        """What the daemon answers to a long request, with a bar meanwhile; else as `ask`."""
        with bar(title, quiet=quiet) as progress:
            return self.ask(title, path, body, progress)

    def ask(self, title: str, path: str, body: Any, progress: Progress) -> Any:
        """What the daemon answers to a long request. Ctrl-C stops the work there, and waits for
        what it has begun to be put away."""
        daemon, word = self.daemon(), secrets.token_hex(8)
        joint = "&" if "?" in path else "?"
        call: Future[Any] = Future()

        def ask() -> None:
            try:
                call.set_result(daemon.post_json(f"{path}{joint}work={word}", body, timeout=None))
            except Exception as error:
                call.set_exception(error)

        asking = threading.Thread(target=ask, name=title)
        try:
            asking.start()  # an interrupt may come before this returns
            while not _ended(call):
                with suppress(SatchelError):
                    progress(**daemon.get_json(f"/v1/works/{word}"))
        except KeyboardInterrupt:
            while asking.is_alive():  # the daemon may not have begun with it yet
                with suppress(SatchelError):
                    daemon.delete(f"/v1/works/{word}")
                asking.join(PROGRESS_SECONDS)
            raise
        return call.result()


def _ended(call: Future[Any]) -> bool:
    """Whether it has within PROGRESS_SECONDS."""
    with suppress(TimeoutError):
        call.exception(PROGRESS_SECONDS)
    return call.done()
