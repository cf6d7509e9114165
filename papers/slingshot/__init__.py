# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Slingshot's portable storage (Su and Flinn): its evaluation, and prediction in its place."""

__all__: list[str] = []
