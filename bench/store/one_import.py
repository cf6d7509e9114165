# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""One import that is measured: python -m bench.store.one_import STORE FILE LEVEL.

Into a store that it makes. Imports nothing but the engine, because the start would count.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chunkstore import Store


def main(store: Path, file: Path, level: int) -> None:
    Store.create(store).close()
    with Store.open(store, level=level) as opened:
        opened.import_file(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
