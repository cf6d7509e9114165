# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""`satchel call`: one operation from a command line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import httpx

from client.cli.context import Context, pass_context
from client.control import running_session
from console import json_option, show
from satchel.errors import UnavailableError


@click.command("call")
@click.argument("service")
@click.argument("method", metavar="METHOD")
@click.argument("path", metavar="PATH")
@click.option("-d", "--data", help="The request's body; @FILE reads it from a file.")
@click.option("-H", "--header", "headers", multiple=True, help="NAME: VALUE; repeatable.")
@json_option
@pass_context
def command(
    context: Context,
    service: str,
    method: str,
    path: str,
    data: str | None,
    headers: tuple[str, ...],
    as_json: bool,
) -> None:
    """Send one HTTP request to SERVICE as an operation; print the first response."""
    port = running_session(context.settings, service).get_json("/v1/status")["port"]
    body = _body(data)
    pairs = [header.partition(":") for header in headers]
    try:
        answer = httpx.request(
            method.upper(),
            f"http://127.0.0.1:{port}{path}",
            content=body,
            headers={name.strip(): value.strip() for name, _, value in pairs},
            timeout=None,
        )
    except httpx.TransportError as error:
        raise UnavailableError(f"the session of {service} broke off", why=str(error)) from error
    if as_json:
        show(_describe(answer), as_json=True)
    else:
        sys.stdout.buffer.write(answer.content)


def _body(data: str | None) -> bytes:
    if data is None:
        return b""
    return Path(data[1:]).read_bytes() if data.startswith("@") else data.encode()


def _describe(answer: httpx.Response) -> dict[str, Any]:
    return {
        "status": answer.status_code,
        "operation": int(answer.headers.get("X-Satchel-Operation", 0)),
        "leader": answer.headers.get("X-Satchel-Leader"),
        "seconds": float(answer.headers.get("X-Satchel-Seconds", 0.0)),
        "body": answer.text,
    }
