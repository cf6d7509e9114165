# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a client lacks, all of it at once: keys, host keys, connections, the medium, signers."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from client.platform.settings import HOME, ClientSettings
from console import Finding, Severity
from media import MEDIA_KEY_NAMESPACE, Media
from satchel.errors import SatchelError
from wire import Links, LocalProtocolError, Peer, knows_host, read_certificate

PAIR = "pair: `satchel-home pair` at home, then what it shows here"

ADMITTED = "have the operator run `satchel-surrogate admit`, then what it shows here"


def preflight(settings: ClientSettings, configuration: Path) -> list[Finding]:
    """Everything that keeps a session from working, in the order in which it would be met. Asks
    home and each surrogate, all at once. Never fails."""
    peers = {HOME: settings.home} if settings.home.destination else {}
    peers |= settings.surrogates
    found = list(_of_settings(settings, configuration))
    with (
        Links(settings.run / "l" / f"d{secrets.token_hex(3)}") as links,
        ThreadPoolExecutor(max_workers=max(1, len(peers))) as pool,
    ):
        asked = [pool.submit(_of_peer, links, name, peer) for name, peer in peers.items()]
        for one in asked:
            found += one.result()
    return [*found, *_of_media(settings)]


def _of_settings(settings: ClientSettings, configuration: Path) -> Iterator[Finding]:
    if not configuration.exists():
        yield Finding(f"there is no {configuration}", PAIR)
    elif not settings.home.destination:
        yield Finding(f"{configuration} names no home", PAIR)
    if not settings.surrogates:
        yield Finding("no surrogate is known", ADMITTED, "warning")
    signers = settings.allowed_signers
    allowed = signers.read_text(errors="replace") if signers.exists() else ""
    if "namespaces=" not in allowed:
        yield Finding(f"{signers} names nobody who signs checkpoints", PAIR)
    elif MEDIA_KEY_NAMESPACE not in allowed:
        yield Finding(f"{signers} names nobody who signs keys of media", PAIR, "warning")


def _of_peer(links: Links, name: str, peer: Peer) -> list[Finding]:
    remedy = PAIR if name == HOME else ADMITTED
    weight: Severity = "fault" if name == HOME else "warning"
    local = [*_of_key(name, peer, remedy, weight), *_of_host_key(name, peer, remedy, weight)]
    if any(finding.severity == "fault" or name != HOME for finding in local):
        return local  # a connection would fail for that reason only
    try:
        links.open(name, peer).http.get_json("/v1/services" if name == HOME else "/v1/status")
    except SatchelError as error:
        why = f"{error.what}: {error.why}" if error.why else error.what
        return [*local, Finding(why, error.fix or f"see whether {name} is on", weight)]
    return local


def _of_key(name: str, peer: Peer, remedy: str, weight: Severity) -> Iterator[Finding]:
    key = peer.identity
    try:
        mode = key.stat().st_mode
    except OSError:
        yield Finding(f"there is no key {key} to log in to {name} with", remedy, weight)
        return
    if stat.S_IMODE(mode) & 0o077:
        yield Finding(f"others may read {key}, so ssh refuses it", f"chmod 600 {key}", weight)
    certificate = key.with_name(key.name + "-cert.pub")
    if certificate.exists() and (ended := _ended(certificate)):
        yield Finding(f"the certificate for {name} ended at {ended}", remedy, weight)


def _ended(certificate: Path) -> str:
    """Return the local time at which the certificate ended; empty while it is valid."""
    try:
        ends = read_certificate(certificate.read_text(errors="replace")).valid_before
    except LocalProtocolError:
        return ""
    return "" if ends > time.time() else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ends))


def _of_host_key(name: str, peer: Peer, remedy: str, weight: Severity) -> Iterator[Finding]:
    if not knows_host(peer.known_hosts, peer.host, peer.port):
        what = f"{peer.known_hosts} has no key of {name}, {peer.host} port {peer.port}"
        yield Finding(what, remedy, weight)


def _of_media(settings: ClientSettings) -> Iterator[Finding]:
    if not settings.media:
        yield Finding(
            "no medium is named, so sessions fetch from home only",
            "plug the stick in, then `satchel config set media FOLDER`",
            "warning",
        )
        return
    try:
        with Media.open(Path(settings.media), settings.media_keys):
            if not os.access(settings.media, os.W_OK):
                what = f"{settings.media} cannot be written to, so operations are logged elsewhere"
                yield Finding(what, "mount it so that you may write to it", "warning")
    except SatchelError as error:
        yield Finding(str(error), "plug the stick in, or mount it", "warning")
