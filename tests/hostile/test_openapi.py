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
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import flask
import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from client.control import control_app
from client.fronts.proxy import Proxy
from homeserver.api import home_app
from homeserver.edge import EdgeDoors, GrantShelf
from homeserver.shares import Shares, ShareShelf
from surrogate.operator import HEADER
from surrogate.operator_api import operator_app
from surrogate.tenant_sockets import TenantSockets
from tests.client.conftest import carried, world  # noqa: F401
from tests.client.world import World
from tests.homeserver.conftest import Bench, bench  # noqa: F401
from tests.needs import requires
from tests.surrogate.conftest import Site, site  # noqa: F401

pytestmark = requires("nbdkit", "nbdfuse", "fusermount3", "fuse", "sshd", "ssh")

EXAMPLES = int(os.environ.get("SATCHEL_EXAMPLES", "6"))
"""Requests for each operation."""

LONG = {"post_upkeep_verify", "post_upkeep_settle"}

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
        operation = found.ok()

        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize="SATCHEL_EXAMPLES" not in os.environ,
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(), known=hypothesis.strategies.booleans())
        def ask(case: schemathesis.Case, known: bool) -> None:
            if known:
                parameters = case.path_parameters
                parameters |= {key: KNOWN[key] for key in KNOWN if key in parameters}
            if isinstance(case.body, dict):
                case.body |= {key: inside(folder, case.body[key]) for key in FILES if key in case.body}
            response = case.call(headers=dict(headers or {}))
            assert response.status_code != 500, response.text
            case.validate_response(
                response, checks=CHECKS, excluded_checks=[not_a_server_error]
            )
            statuses.add(response.status_code)

        ask()
        asked += 1
    assert asked >= len(list(app.url_map.iter_rules())) - 1
    return statuses


def inside(folder: Path, value: object) -> str:
    return str(folder / re.sub(r"[^a-z0-9]", "", str(value)))


def test_home(bench: Bench, tmp_path: Path) -> None:
    bench.running()
    settings = bench.settings
    shelf = ShareShelf(settings.shares)
    with closing(Shares(shelf, settings.share_socket, settings.share_lease_seconds)) as shares:
        grants = GrantShelf(settings.share_grants)
        home = bench.home
        with closing(EdgeDoors(settings.run, grants, shares, home.keeper, home.share_of)) as edges:
            assert {200, 400, 404} <= fuzz(home_app(home, shares, None, edges), tmp_path)


def test_surrogate(site: Site, tmp_path: Path) -> None:
    site.create("r1")
    with closing(TenantSockets(site.host)) as sockets:
        app = operator_app(site.host, sockets)
        token = {HEADER: site.host.operator.token}
        assert {200, 400, 404} <= fuzz(app, tmp_path, token)


def test_session(carried: World, tmp_path: Path) -> None:
    runner = carried.runner()
    stop: queue.SimpleQueue[None] = queue.SimpleQueue()
    with closing(Proxy(runner.session)) as front:
        app = control_app(runner, front, stop)
        assert {200, 400, 404} <= fuzz(app, tmp_path)
