# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate's daemon in a process of its own, with a scripted machine of a tenant `victim`.

`python -m tests.attacks.hotspot FOLDER` says in one line of JSON where the sockets of `victim` and
`greedy` are, which replica runs, and what a request for another one is. It ends with its standard
input.
"""

import dataclasses
import json
import sys
from pathlib import Path

from surrogate.tenant_sockets import TenantSockets
from tests.surrogate.conftest import Site
from wire import CreateReplica, SourceAddress


def main() -> None:
    site = Site(Path(sys.argv[1]), memory_mib=4096)
    sockets = TenantSockets(site.host)
    doors, requests = {}, {}
    for name in ("victim", "greedy"):
        tenant = site.host.tenants.admit(name)
        source = site.forward("home", tenant.forwarded)
        doors[name] = str(sockets.open(tenant))
        requests[name] = dataclasses.replace(
            site.request(CreateReplica.new_id("notes")),
            sources=(SourceAddress("home", str(source.path)),),
        )
    hosted = site.host.create(requests["victim"], site.host.tenants.admit("victim"))
    hosted.wait_started(60.0)
    said = {"doors": doors, "replica": hosted.id, "state": hosted.status().state}
    print(json.dumps(said | {"request": requests["greedy"].to_json()}), flush=True)
    sys.stdin.read()
    sockets.close()
    site.close()


if __name__ == "__main__":
    main()
