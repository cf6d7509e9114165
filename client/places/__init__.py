# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The places of a service's machines, each over a link that may break.

- place: requests to any of them
- home, surrogate: the two kinds; leftovers: replicas that a killed session left at surrogates
- nearby: where a client could go; here: announcements that a session hears
"""
