# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sends a notice to the desktop, by mail, to a webhook, or to a service such as ntfy."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from email.message import EmailMessage

from console import DesktopNotifier
from satchel.errors import UnavailableError
from satchel.settings import SettingsError, require_service_url

Channel = Callable[[str, str], None]
"""Sends a title and a text. Raises UnavailableError."""

SECONDS = 20.0
"""How long a mail program or a server may take."""

SENDMAIL_FOLDERS = "/usr/sbin:/usr/lib:/usr/bin"


def channel_of(place: str) -> Channel:
    """Return the channel to a place of the setting `notify`: `desktop`, `mailto:ADDRESS`,
    `https://HOST/PATH`, which gets JSON by POST, or `ntfy:https://HOST/TOPIC`. Raises
    SettingsError."""
    if place == "desktop":
        return _desktop
    scheme, _, rest = place.partition(":")
    if scheme == "mailto" and "@" in rest and not any(c.isspace() for c in rest):
        return lambda title, text: _mail(rest, title, text)
    if scheme in ("http", "https"):
        require_service_url(place, password=True, unencrypted=False)
        return lambda title, text: _post_json(place, title, text)
    if scheme == "ntfy":
        require_service_url(rest, password=True, unencrypted=False)
        return lambda title, text: _post_text(rest, title, text)
    raise SettingsError(
        f"notices cannot be sent to {place[:80]!r}",
        fix="write desktop, mailto:ADDRESS, https://HOST/PATH or ntfy:https://HOST/TOPIC",
    )


def _desktop(title: str, text: str) -> None:
    with DesktopNotifier(title) as desktop:
        if not desktop.tell(text, urgent=True):
            raise UnavailableError("no desktop shows notifications")


def _mail(address: str, title: str, text: str) -> None:
    program = shutil.which("sendmail", path=SENDMAIL_FOLDERS)
    if program is None:
        raise UnavailableError(
            "no sendmail is installed", fix="install a mail server such as nullmailer"
        )
    mail = EmailMessage()
    mail["To"], mail["Subject"] = address, title
    mail.set_content(text + "\n")
    try:
        argv = [program, "-i", "--", address]
        subprocess.run(argv, input=bytes(mail), check=True, capture_output=True, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(f"cannot send mail to {address}", why=str(error)) from error


def _post_json(url: str, title: str, text: str) -> None:
    body = json.dumps({"title": title, "text": text, "host": socket.gethostname()})
    _post(url, body.encode(), {"Content-Type": "application/json"})


def _post_text(url: str, title: str, text: str) -> None:
    _post(url, text.encode(), {"Title": title, "Content-Type": "text/plain; charset=utf-8"})


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    request = urllib.request.Request(url, body, {"User-Agent": "satchel", **headers})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS):
            pass
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise UnavailableError(f"{url} does not take it", why=str(error)) from error
