# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home as the helper of `satchel uplink`: home is wired, and asks cloud storage for the mobile.

- settings: the accounts that home may use, each with its credentials: opt-in
- trees: mirrors of trees; the mobile gets the changes
- files: whole files; the mobile sends the chunks that the service's file lacks
- api: both over HTTP (docs/formats/uplink.md)
- helped service: a cloud service that home has credentials for
"""

from typing import TYPE_CHECKING

from satchel.deferred import deferred

if TYPE_CHECKING:
    from uplink.helper import api
    from uplink.helper.api import uplink_routes
    from uplink.helper.service_helpers import ServiceHelpers
    from uplink.helper.settings import HelpedService
else:
    __getattr__ = deferred(__name__)

__all__ = ["HelpedService", "ServiceHelpers", "api", "uplink_routes"]
