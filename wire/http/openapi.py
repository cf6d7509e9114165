# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What a daemon's API offers, as OpenAPI 3.1: made from its routes, and served by it.

GET    /v1/openapi.json   the description
POST   /v1/chunks         chunk references in, pack records out
POST   /v1/below          places below pages in, pack records out

Paths, methods and parameters are those of the routes. What each does is a line like the one above,
in the docstring of the API's module. There `S` in a path is any parameter, and `?limit=N` a query
parameter that may be left out: N is a whole number, SECONDS a number, 1 a switch, else it is text.
The body of a request is what the route's view says, by `takes` or `octets`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypeVar

import flask
from werkzeug.routing import Rule

from satchel.errors import UsageError
from wire.errors import STATUS

PATH = "/v1/openapi.json"

OF_FLASK = frozenset({"HEAD", "OPTIONS"})

JSON_TYPES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}

ERROR = {
    "type": "object",
    "required": ["code", "what", "why", "fix"],
    "properties": {
        "code": {"enum": sorted(STATUS)},
        **{name: {"type": "string"} for name in ("what", "why", "fix")},
    },
}

QUERY_TYPES = {
    "N": {"type": "integer", "minimum": 0},
    "SECONDS": {"type": "number", "minimum": 0},
    "1": {"const": "1"},
}

_LINE = re.compile(r"(GET|POST|DELETE) +(/\S*?)(?:\?(\S+))?(?: +|: |$)(.*)")
_PARAMETER = re.compile(r"<(?:(\w+):)?(\w+)>|(?<=/)[A-Z]{1,20}(?=/|$)")

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True)
class Told:
    """A line of a docstring. query: names of parameters, and what their values are"""

    summary: str
    query: dict[str, str]


def takes(**types: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A view whose body is a JSON object with exactly these keys and types. It gets the object as
    its first argument; with another body the request is a UsageError."""

    def decorate(view: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(view)
        def checked(**parameters: Any) -> Any:
            return view(_fields(types), **parameters)

        checked.takes = types  # type: ignore[attr-defined]
        return checked

    return decorate


def octets(*, sent: bool = False, answered: bool = False) -> Callable[[View], View]:
    """A view whose body, or answer, is bytes and no JSON."""

    def decorate(view: View) -> View:
        view.octets = sent, answered  # type: ignore[attr-defined]
        return view

    return decorate


def serve_description(app: flask.Flask, title: str, *documents: str | None) -> None:
    """Let `app` say what it offers. documents: docstrings with a line for each route"""

    @app.get(PATH)
    def openapi() -> Any:
        return description(app, title, *documents)


def description(app: flask.Flask, title: str, *documents: str | None) -> dict[str, Any]:
    """The document. A route without a line has no summary."""
    told = dict(lines(*documents, __doc__))
    paths: dict[str, dict[str, Any]] = {}
    for rule in app.url_map.iter_rules():
        place = _PARAMETER.sub(lambda found: f"{{{found[2]}}}", rule.rule)
        for method in (rule.methods or set()) - OF_FLASK:
            line = told.get((method, shape(rule.rule)), Told("", {}))
            view = app.view_functions[rule.endpoint]
            paths.setdefault(place, {})[method.lower()] = _operation(rule, method, view, line)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("satchel")},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": {"Error": ERROR}},
    }


def lines(*documents: str | None) -> Iterator[tuple[tuple[str, str], Told]]:
    """Method, shape of the path, and what is told of it, of each line of such a docstring. More
    follows on lines that begin with blanks."""
    for document in documents:
        text = re.sub(r"\n {3,}", " ", document or "")
        for line in text.splitlines():
            if found := _LINE.fullmatch(line):
                method, path, query, summary = found.groups()
                pairs = [pair.partition("=") for pair in (query or "").split("&") if pair]
                told = Told(" ".join(summary.split()), {name: value for name, _, value in pairs})
                yield (method, shape(path)), told


def shape(path: str) -> str:
    """A path with its parameters as `{}`, however they are called."""
    return _PARAMETER.sub("{}", path)


def _operation(rule: Rule, method: str, view: Any, line: Told) -> dict[str, Any]:
    sent, answered = getattr(view, "octets", (False, False))
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _parameter(rule, name)}
        for name in sorted(rule.arguments)
    ]
    parameters += [
        {"name": name, "in": "query", "schema": QUERY_TYPES.get(value, {"type": "string"})}
        for name, value in line.query.items()
    ]
    answer = "application/octet-stream" if answered else "application/json"
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation = {
        "operationId": f"{method.lower()}_{rule.endpoint.replace('.', '_')}",
        "summary": line.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": {answer: {}}},
            "default": {"description": "why not", "content": error},
        },
    }
    if method == "POST":
        required = sent or hasattr(view, "takes")
        operation["requestBody"] = {"required": required, "content": _body(view, octets_sent=sent)}
    return operation


def _parameter(rule: Rule, name: str) -> dict[str, Any]:
    whole = f"<int:{name}>" in rule.rule
    return {"type": "integer", "minimum": 0} if whole else {"type": "string", "minLength": 1}


def _body(view: Any, *, octets_sent: bool) -> dict[str, Any]:
    if octets_sent:
        return {"application/octet-stream": {"schema": {}}}
    types: dict[str, type] | None = getattr(view, "takes", None)
    if types is None:
        return {"application/json": {"schema": {"type": "object"}}}
    schema = {
        "type": "object",
        "required": sorted(types),
        "properties": {name: {"type": JSON_TYPES[kind]} for name, kind in types.items()},
        "additionalProperties": False,
    }
    return {"application/json": {"schema": schema}}


def _fields(types: dict[str, type]) -> dict[str, Any]:
    try:
        body = flask.request.get_json(silent=True)
    except RecursionError:
        body = None
    if not isinstance(body, dict) or {key: type(value) for key, value in body.items()} != types:
        wanted = ", ".join(f"{name}: {kind.__name__}" for name, kind in types.items())
        raise UsageError(f"{flask.request.path} needs a JSON object with {wanted}")
    return body
