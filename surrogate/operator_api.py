# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The daemon's own socket over HTTP: what its operator has there, with the token in the header.

With the token a request for anything else is one of the tenant `account` (surrogate/api.py), and
without it all are refused: clients come by the door.
"""

from __future__ import annotations

from typing import Any

import flask

from satchel.ids import BLOCK_SIZE
from surrogate.api import surrogate_app
from surrogate.host import Host
from surrogate.operator import HEADER
from surrogate.tenant_sockets import TenantSockets
from surrogate.tenants.tenant import Tenant
from wire import octets, takes


def operator_app(host: Host, sockets: TenantSockets) -> flask.Flask:
    """The application of the daemon's own socket."""
    app = surrogate_app(host)

    @app.before_request
    def status_and_end() -> Any:
        """For the operator alone, and these two of all replicas."""
        host.operator.require(flask.request.headers.get(HEADER))
        replica = (flask.request.view_args or {}).get("replica")
        if flask.request.method == "GET" and flask.request.path == "/v1/status":
            return host.status().to_json()
        if flask.request.method == "DELETE" and flask.request.path == f"/v1/replicas/{replica}":
            host.end_every(str(replica))
            return {}
        return None

    @app.post("/v1/cache")
    @octets(sent=True)
    def warm() -> Any:
        """What services share, before the first guest comes."""
        blocks = flask.request.get_data()
        return {"new": host.warm(blocks), "blocks": len(blocks) // BLOCK_SIZE}

    app.register_blueprint(_tenants(host, sockets))
    return app


def _tenants(host: Host, sockets: TenantSockets) -> flask.Blueprint:
    routes = flask.Blueprint("tenants", __name__, url_prefix="/v1/tenants")

    @routes.get("")
    def listed() -> Any:
        """{"tenants": [...], "banned": [...]}."""
        told = [_told(host, sockets, tenant) for tenant in host.tenants.all()]
        return {"tenants": told, "banned": host.tenants.banned()}

    @routes.post("")
    @takes(identity=str)
    def admit(fields: dict[str, Any]) -> Any:
        """{"identity": I}: admit it. {"socket": PATH, "forwarded": PATH}, where its API is and
        where sockets go that it forwards."""
        tenant = host.tenants.admit(fields["identity"])
        return {"socket": str(sockets.open(tenant)), "forwarded": str(tenant.forwarded)}

    @routes.post("/end")
    @takes(identity=str)
    def end(fields: dict[str, Any]) -> Any:
        """{"identity": I}: end all that it has, and cut its connections."""
        sockets.end_known(fields["identity"])
        return {}

    @routes.post("/ban")
    @takes(identity=str)
    def ban(fields: dict[str, Any]) -> Any:
        """{"identity": I}: the same, and admit it no more."""
        identity = fields["identity"]
        host.tenants.ban(identity)
        for tenant in host.tenants.all():
            if tenant.identity == identity:
                sockets.end_all(tenant)
        return {}

    @routes.post("/unban")
    @takes(identity=str)
    def unban(fields: dict[str, Any]) -> Any:
        """{"identity": I}."""
        host.tenants.unban(fields["identity"])
        return {}

    return routes


def _told(host: Host, sockets: TenantSockets, tenant: Tenant) -> dict[str, Any]:
    return {
        "identity": tenant.identity,
        "connections": sockets.connections(tenant),
        **host.usage(tenant).to_json(),
    }
