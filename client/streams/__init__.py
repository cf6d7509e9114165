# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The surroundings of a carried service's leader, to which programs have streams.

- copies: home's, a checkpoint that it makes of a delta, and the medium's; delta_shipper: deltas on
  their way home, in the background
- losses: the report of a lost leader; resending:
  requests that it answered, sent to the next one
- outbound: connections of the guest's to the outside
"""
