# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Requests that schemathesis makes of what the three daemons say that they offer.

None of them may meet a defect of ours (500), and each is answered as the description says. What a
request names as a file is in the test's own folder. SATCHEL_EXAMPLES=1000 is a longer run.
"""

from __future__ import annotations

import os
import queue
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import flask
import hypothesis
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from client.control import control_app
from homeserver.api import home_app
from homeserver.edge import EdgeDoors, GrantRegistry
from homeserver.shares import ShareRegistry, Shares
from surrogate.operator import HEADER, TOKEN
from surrogate.operator_api import operator_app
from surrogate.tenant_sockets import TenantSockets
from tests.client.world import World
from tests.homeserver.conftest import Bench
from tests.needs import requires
from tests.surrogate.conftest import Site

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

EXAMPLES = int(os.environ.get("SATCHEL_EXAMPLES", "6"))
"""Requests for each operation."""

MET = {200, 400, 404}
"""Statuses that are met at least: else nothing was done, or nothing wrong was tried."""

CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]

FILES = ("file", "media", "path")
"""Fields of a body that name a file on the host."""

KNOWN = {"name": "notes", "service": "notes", "replica": "r1"}
"""Parameters that are what there is in every other request: else all would be not found."""


def fuzz(app: flask.Flask, folder: Path, headers: Mapping[str, str] | None = None) -> set[int]:
    """The statuses with which the requests were answered."""
    schema = schemathesis.openapi.from_wsgi("/v1/openapi.json", app, headers=dict(headers or {}))
    statuses: set[int] = set()
    asked = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize="SATCHEL_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(), known=hypothesis.strategies.booleans())
        def ask(case: schemathesis.Case[Any], known: bool) -> None:
            if known:
                parameters = case.path_parameters
                parameters |= {key: KNOWN[key] for key in KNOWN if key in parameters}
            if isinstance(case.body, dict):
                case.body |= {
                    key: inside(folder, case.body[key]) for key in FILES if key in case.body
                }
            response = case.call(headers=dict(headers or {}))
            assert response.status_code != 500, response.text
            case.validate_response(response, checks=CHECKS, excluded_checks=[not_a_server_error])
            statuses.add(response.status_code)

        ask()
        asked += 1
    assert asked >= len(list(app.url_map.iter_rules())) - 1
    return statuses


def inside(folder: Path, value: object) -> str:
    return str(folder / re.sub(r"[^a-z0-9]", "", str(value)))


def test_home(short_path: Path, tmp_path: Path) -> None:
    bench = Bench(short_path)
    settings, home = bench.settings, bench.home
    shelf, grants = ShareRegistry(settings.shares), GrantRegistry(settings.share_grants)
    bench.running()
    with (
        closing(home),
        closing(Shares(shelf, settings.share_socket, settings.share_lease_seconds)) as shares,
        closing(EdgeDoors(settings.run, grants, shares, home.keeper, home.share_of)) as edges,
    ):
        assert fuzz(home_app(home, shares, None, edges), tmp_path) >= MET


def test_surrogate(short_path: Path, tmp_path: Path) -> None:
    with closing(Site(short_path)) as site, closing(TenantSockets(site.host)) as sockets:
        site.create("r1")
        app = operator_app(site.host, sockets)
        token = {HEADER: f"Bearer {(site.settings.run / TOKEN).read_text()}"}
        assert fuzz(app, tmp_path, token) >= MET


def test_session(short_path: Path, tmp_path: Path) -> None:
    with closing(World(short_path)) as world:
        world.home.launch("notes")
        world.home.carry("notes", world.stick)
        runner = world.runner()
        runner.open_fronts()
        assert fuzz(control_app(runner, queue.SimpleQueue()), tmp_path) >= MET
