# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A daemon's numbers for Prometheus, as of the moment when it asks.

GET /metrics   all of them, in Prometheus's text format
"""

from __future__ import annotations

from flask import Flask, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from wire.http.server import install_errors

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_app(collector: Collector) -> Flask:
    """The application: no token, because the socket's mode says who may."""
    app = Flask("satchel-metrics", static_folder=None)
    install_errors(app)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(exposition(collector), content_type=CONTENT_TYPE)

    return app


def exposition(collector: Collector) -> bytes:
    """All that it collects, in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)
