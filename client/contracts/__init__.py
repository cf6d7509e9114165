# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Which places execute the operations of a service: a strategy for each contract.

- contract: the face of both
- replayed: every replica executes each operation, in the order of the log
- carried: one leader executes, and hands over
"""

from client.contracts.carried import Carried
from client.contracts.contract import Contract, Resources
from client.contracts.replayed import Replayed
from images import Manifest


def contract_of(manifest: Manifest, resources: Resources) -> Contract:
    """The contract that a service's checkpoint says it has."""
    return (Carried if manifest.contract.carried else Replayed)(resources)


__all__ = ["Carried", "Contract", "Replayed", "Resources", "contract_of"]
