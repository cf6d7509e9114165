# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel call`: one operation from a command line."""

from __future__ import annotations

import http.client
import json
import string
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import click

from client.platform.running import running_session
from client.platform.settings import ClientSettings
from console import json_option, show
from satchel.errors import UnavailableError, UsageError
from wire import ErrorReport


@click.command("call")
@click.argument("service")
@click.argument("method", metavar="METHOD")
@click.argument("path", metavar="PATH")
@click.option("-d", "--data", help="The request's body; @FILE reads it from a file.")
@click.option("-H", "--header", "headers", multiple=True, help="NAME: VALUE; repeatable.")
@json_option
@click.pass_obj
def command(
    settings: ClientSettings,
    service: str,
    method: str,
    path: str,
    data: str | None,
    headers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Send one HTTP request to SERVICE; print the first response.

    Its session must run; every replica executes the request.
    """
    if not path.startswith("/"):
        raise UsageError(f"{path!r} is not a path", fix="a path begins with /")
    url = running_session(settings, service).get_json("/v1/status")["url"]
    if not url.startswith("http:"):
        raise UsageError(f"{service} does not speak HTTP", fix=f"use a program for {url}")
    session = http.client.HTTPConnection(urlsplit(url).netloc)
    target, named = quote(path, string.punctuation), dict(_header(header) for header in headers)
    try:
        session.request(method.upper(), target, _body(data) or None, named)
        answer = session.getresponse()
        body = answer.read()
    except ValueError as error:
        raise UsageError(f"cannot send {method} {path[:200]}", why=str(error)) from error
    except (OSError, http.client.HTTPException) as error:
        what, fix = f"the session of {service} broke off", "`satchel run` goes on from its log"
        raise UnavailableError(what, why=str(error), fix=fix) from error
    finally:
        session.close()
    if "X-Satchel-Operation" not in answer.headers:
        raise _fault(answer.status, body)
    if as_json:
        show(_describe(answer, body), as_json=True)
    else:
        sys.stdout.buffer.write(body)


def _body(data: str | None) -> bytes:
    if data is None or not data.startswith("@"):
        return (data or "").encode()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {data[1:]}", why=error.strerror or str(error)) from error


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"{text!r} is not a header", fix="NAME: VALUE")
    return name.strip(), value.strip()


def _fault(status: int, body: bytes) -> Exception:
    """The session's own error, as it was before it became an answer."""
    try:
        return ErrorReport.from_json(json.loads(body)).to_error()
    except (ValueError, RecursionError):
        what = f"the session answered with status {status}"
        return UnavailableError(what, why=body.decode(errors="replace")[:200])


def _describe(answer: http.client.HTTPResponse, body: bytes) -> dict[str, Any]:
    return {
        "status": answer.status,
        "operation": int(answer.headers["X-Satchel-Operation"]),
        "leader": answer.headers["X-Satchel-Leader"],
        "seconds": float(answer.headers["X-Satchel-Seconds"]),
        "stable": answer.headers["X-Satchel-Stable"] == "yes",
        "body": body.decode(errors="replace"),
    }
