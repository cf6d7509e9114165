# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home's help over HTTP (docs/formats/uplink.md)."""

from __future__ import annotations

import re
import zlib
from typing import Any

import flask

from satchel.errors import UsageError
from satchel.typed import Form, TypeMismatch
from uplink.helper.files import NewFile
from uplink.helper.service_helpers import ServiceHelpers
from wire import octets, query, takes


def uplink_routes(helper: ServiceHelpers) -> flask.Blueprint:
    """The routes at the top."""
    routes = flask.Blueprint("uplink", __name__, url_prefix="/v1/uplink/<service>")

    @routes.post("/trees")
    @octets(answered=True)
    @takes(user=str, root=str, question=str)
    def begin_tree(fields: dict[str, Any], service: str) -> Any:
        """A mirror of a tree; all that is in it."""
        trees = helper.of_user(service, fields["user"]).trees
        return _packed(trees.begin(fields["root"], fields["question"].encode()))

    @routes.get("/trees/<tree>")
    @octets(answered=True)
    @query(since=int)
    def tree_since(service: str, tree: str) -> Any:
        """What is another than in state N."""
        since = flask.request.args.get("since", "")
        if not re.fullmatch("[0-9]{1,15}", since):
            raise UsageError("since must be a number")
        return _packed(helper.get(service).trees.since(tree, int(since)))

    @routes.post("/files")
    @takes(user=str, file=dict)
    def begin_file(fields: dict[str, Any], service: str) -> Any:
        """Begin a new file: a name, or that the service has it."""
        file = _new_file(fields["file"])
        name, etag = helper.of_user(service, fields["user"]).files.begin(file)
        return {"file": name, "etag": etag}

    @routes.post("/files/<file>/names")
    @octets(sent=True, answered=True)
    def name_chunks(service: str, file: str) -> Any:
        """SHA-1s of its chunks; a bit for each that home lacks."""
        return _packed(helper.get(service).files.name(file, flask.request.get_data()))

    @routes.post("/files/<file>/chunks")
    @octets(sent=True)
    def take_chunks(service: str, file: str) -> Any:
        """The next of those."""
        helper.get(service).files.take(file, flask.request.get_data())
        return {}

    @routes.post("/files/<file>/send")
    def send(service: str, file: str) -> Any:
        """Upload it: outcome, why, etag."""
        return Form().plain(helper.get(service).files.send(file))

    return routes


def _new_file(fields: dict[str, Any]) -> NewFile:
    try:
        file: NewFile = Form().typed(fields, NewFile, "the new file")
    except (TypeMismatch, RecursionError) as error:
        raise UsageError(f"cannot read {flask.request.path}", why=str(error)) from error
    return file


def _packed(body: bytes) -> flask.Response:
    return flask.Response(zlib.compress(body), mimetype="application/octet-stream")
