# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The description of a daemon's API in OpenAPI 3.1: made from its routes, and served by it.

Each view of a route is one row of the table: its route gives method and path, the first paragraph
of its docstring the summary, `takes` or `octets` the body, and `query` the parameters that a
request may leave out.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeVar

import flask
from werkzeug.routing import Rule

from satchel.errors import UsageError
from wire.errors import STATUS

PATH = "/v1/openapi.json"

NUMBER_LIMIT = (1 << 63) - 1

OCTETS = "application/octet-stream"

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

QUERY_TYPES: dict[type, dict[str, Any]] = {
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number", "minimum": 0},
    bool: {"const": "1"},
    str: {"type": "string"},
}

_PARAMETER = re.compile(r"<(?:(\w+):)?(\w+)>")

Views = Callable[..., Any]
View = TypeVar("View", bound=Callable[..., Any])


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


def octets(
    *, sent: bool = False, answered: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A view whose body, or answer, is bytes and no JSON."""

    def decorate(view: Views) -> Views:
        @functools.wraps(view)
        def answering(*fields: Any, **parameters: Any) -> Any:
            answer = view(*fields, **parameters)
            return flask.Response(answer, mimetype=OCTETS) if type(answer) is bytes else answer

        answering.octets = sent, answered  # type: ignore[attr-defined]
        return answering

    return decorate


def query(**types: type) -> Callable[[View], View]:
    """Declare the query parameters of a view; a bool is present as 1."""

    def decorate(view: View) -> View:
        view.query = types  # type: ignore[attr-defined]
        return view

    return decorate


def query_number(name: str, default: int = 0, least: int = 0, most: int = NUMBER_LIMIT) -> int:
    """Return a whole number of the request's query. Raises UsageError."""
    text = flask.request.args.get(name, str(default))
    if not re.fullmatch("[0-9]{1,20}", text) or not least <= int(text) <= most:
        raise UsageError(f"{name} must be a number from {least} to {most}", why=f"it is {text!r}")
    return int(text)


def serve_description(app: flask.Flask, title: str) -> None:
    """Let `app` serve its description."""

    @app.get(PATH)
    def openapi() -> Any:
        """The description."""
        return description(app, title)


def description(app: flask.Flask, title: str) -> dict[str, Any]:
    """Return the document. A route whose view has no docstring has no summary."""
    paths: dict[str, dict[str, Any]] = {}
    for rule in app.url_map.iter_rules():
        place = _PARAMETER.sub(lambda found: f"{{{found[2]}}}", rule.rule)
        for method in (rule.methods or set()) - OF_FLASK:
            view = app.view_functions[rule.endpoint]
            paths.setdefault(place, {})[method.lower()] = _operation(rule, method, view)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("satchel")},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": {"Error": ERROR}},
    }


def _operation(rule: Rule, method: str, view: Any) -> dict[str, Any]:
    sent, answered = getattr(view, "octets", (False, False))
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": _parameter(rule, name)}
        for name in sorted(rule.arguments)
    ]
    parameters += [
        {"name": name, "in": "query", "schema": QUERY_TYPES[kind]}
        for name, kind in getattr(view, "query", {}).items()
    ]
    answer = OCTETS if answered else "application/json"
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    operation = {
        "operationId": f"{method.lower()}_{rule.endpoint.replace('.', '_')}",
        "summary": " ".join((inspect.getdoc(view) or "").split("\n\n")[0].split()),
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
        return {OCTETS: {"schema": {}}}
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
