# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Cloud storage of unmodified programs, with the radio asleep (StoArranger).

- policy: decisions about requests to cloud storage; no clock, no network, no threads
- gateway: `satchel uplink`, on the device, between its programs and their services
- helper: home's side, which asks the services for the device

The gateway and the helper import the policy and never each other (`.importlinter`). docs/uplink.md
describes what users get.
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from uplink import gateway, helper, policy
else:
    __getattr__ = deferred(__name__)

__all__ = ["gateway", "helper", "policy"]
