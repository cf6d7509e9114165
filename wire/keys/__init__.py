# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Who is who, by OpenSSH's keys.

- identity: keys, and signatures by them; authority: a site's keys, which certify its guests
- statements: what a replica's host signs of its answers; visitor: whose key sshd has let in
- pairing: how two hosts come to know each other's keys, by a code that one of them shows
"""
