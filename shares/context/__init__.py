# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""The context of a share's files: what programs open after what.

After CAFIO (Lee et al., IEEE Access 2021), Section III.

- successors: which file was opened after which, and how often; learnt by nodes, kept by home
- scan: a program that opens the files of a folder one after the other, in an order that is known
- forecast: what is opened next, from both; how much depends on how often it was right

Pure but for the file on disk, whose bytes are in docs/formats/share.md.
"""

from shares.context.context_file import load_successors, save_successors
from shares.context.forecast import Forecast
from shares.context.kept import KeptContext
from shares.context.scans import Scans
from shares.context.successors import Succession, Successors, SuccessorsInvalid

__all__ = [
    "Forecast",
    "KeptContext",
    "Scans",
    "Succession",
    "Successors",
    "SuccessorsInvalid",
    "load_successors",
    "save_successors",
]
