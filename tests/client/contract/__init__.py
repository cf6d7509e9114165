# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions of services of each contract.

- contract: each case runs for `replayed`, `stateless` and `carried`
- world:    home, two surrogates and a stick, with scripted guests that remember words
- do:       have the service hear a word
- knows:    the places with a running machine that remembers a word
- lack:     a case that a contract does not pass today, an expected failure (`lacks`)
- session:  what starts, moves and ends; only `sessions` knows its classes
"""
