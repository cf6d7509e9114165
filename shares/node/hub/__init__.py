# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Home, as a node reaches it.

- hub: what a node asks of home; losses: whom home went on without
- codec: what both say to each other, as bytes; packing: blocks among that
- remote: a hub at the other end of a channel; membership: how a node joins, and stays in a share
- current_hub: home, over one membership after the other
"""
