# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home, the Internet, hotspots with surrogates and a client that moves, on one machine.

- topology: profiles (rates and delays) and what is joined to what, as data
- links: emulated links; `tc netem` where the kernel has it, else satchel-link over TUN
- namespaces: named network namespaces, their owner, their processes
- bed: the topology made real, and taken away again
- air: a network on which multicast passes (`Air`)
- starting: programs that are up some time after they were started
- plot: response times as a picture
"""

from testbed.air import Air
from testbed.bed import Client, Host, Testbed
from testbed.links import Counters, Link, Shape
from testbed.namespaces import TestbedFailed
from testbed.plain_door import plain_door
from testbed.sshd import Sshd
from testbed.starting import await_up
from testbed.topology import PAPER, PROFILES, TODAY, LinkProfile, Topology

__all__ = [
    "PAPER",
    "PROFILES",
    "TODAY",
    "Air",
    "Client",
    "Counters",
    "Host",
    "Link",
    "LinkProfile",
    "Shape",
    "Sshd",
    "Testbed",
    "TestbedFailed",
    "Topology",
    "await_up",
    "plain_door",
]
