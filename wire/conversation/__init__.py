# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Frames in both directions, which outlive the connections that carry them.

- duplex: a conversation; greeting: how it gets its connections
"""
