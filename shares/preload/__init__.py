# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""A share for programs that cannot mount: a library that is preloaded into them.

- root: the folder at which such programs see the share; for all others it has folders, and no files
- stand-in: an empty file that a program has open, for the kernel, in place of a file of the share

The library (C++, `_native/satchel-files.so`) takes the C library's calls about files. What is below
the root, and descriptors of stand-ins, it asks the node's process about, over a Unix socket; all
other calls go on to the C library.

Modules: messages (what both say), places (paths, as open(2) follows them), stand_ins (which files
programs have open), answers (what is done for them), server (the socket, and programs).
"""

from shares.preload.server import LIBRARY, PreloadServer, environment

__all__ = ["LIBRARY", "PreloadServer", "environment"]
