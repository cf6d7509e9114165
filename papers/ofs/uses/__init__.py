# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Six uses of a folder, each a program that does what a person does there with real programs.

`python -m papers.ofs.uses.NAME prepare|use FOLDER`: `prepare` makes what is there before; `use`
is what is recorded. They say the roles of their threads and their procedures by marks
(`papers.ofs.follow`). Dice are seeded, so that only times differ from run to run.

Modules: compiler, editor, git, ledger, mail, photo; and marks, which all of them use.
"""

__all__: list[str] = []
