# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What uplink saves, on the paper's loads. Joules are a model's, and every name says so."""
