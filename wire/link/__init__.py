# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""OpenSSH's connections to hosts with daemons.

- ssh: one connection, a link; openssh: how its program is started, watched and ended
- door: what sshd runs at the other end; multiplex: streams between both; outlet: what waits there
- links: those of a program, made again when they break; liveness: whether the other end is there
- peers: hosts as settings name them; route_watch: this device is somewhere else; sshd: its settings
"""
