# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One client's replica at this host.

- hosted: it is brought up in a thread of its own, and asked through the API
- carried: what one of a carried service does besides; handover: it is frozen, to go on elsewhere
- cpu_priority: which machines go first, by what is asked of them
"""
