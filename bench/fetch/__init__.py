# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""What fetching ahead is worth, by recorded resumes: docs/prediction.md."""

__all__: list[str] = []
