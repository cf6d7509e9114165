# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Names that the operator's shell completes."""

from __future__ import annotations

from collections.abc import Iterator

from surrogate.cli.daemon import operator_status
from surrogate.settings import SurrogateSettings


def replicas(settings: SurrogateSettings) -> Iterator[str]:
    """Those that run here, of all clients."""
    return (row["replica"] for row in operator_status(settings)["replicas"])
