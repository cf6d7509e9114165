# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Sockets that listen on this host, and connections that carry bytes.

- listening: at a path, or at a port of 127.0.0.1; acceptor: one thread accepts, and hands each on
- loopback: who is at the other end of a connection through 127.0.0.1
- stream_port: a port for protocols that are not HTTP; egress: guests' connections to the outside
"""
