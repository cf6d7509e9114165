# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The recorded workloads: requests of real guests, and the program that records them."""

__all__: list[str] = []
