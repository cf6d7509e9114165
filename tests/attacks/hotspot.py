# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A surrogate's daemon in a process of its own, with a scripted machine of each honest tenant.

`python -m tests.attacks.hotspot FOLDER HONEST,... HOSTILE,...` says in one line of JSON where the
socket of each tenant is, which replica each honest one has, and a request of each for another one.
It ends with its standard input.
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
    sockets = TenantSockets(site.host, idle_seconds=3600.0)
    honest, hostile = (names.split(",") for names in sys.argv[2:])
    doors, requests, replicas = {}, {}, {}
    for name in (*honest, *hostile):
        tenant = site.host.tenants.admit(name)
        source = site.forward("home", tenant.forwarded)
        requests[name] = dataclasses.replace(
            site.request(CreateReplica.new_id("notes")),
            sources=(SourceAddress("home", str(source.path)),),
        )
    for name in honest:
        hosted = site.host.create(requests[name], site.host.tenants.admit(name))
        hosted.wait_started(60.0)
        assert hosted.status().state == "ready", hosted.status()
        replicas[name] = hosted.id
    for name in requests:  # at the end: an unused one is closed after a while
        doors[name] = str(sockets.open(site.host.tenants.admit(name)))
    asked = {name: request.to_json() for name, request in requests.items()}
    said = {"doors": doors, "replicas": replicas, "requests": asked}
    print(json.dumps(said), flush=True)
    sys.stdin.read()
    sockets.close()
    site.close()


if __name__ == "__main__":
    main()
