# SPDX-FileCopyrightText: 2026 The Satchel authors
# SPDX-License-Identifier: Apache-2.0
"""Files and folders, as programs have them open at a node.

- file_handles: files from their first use until home hears that they are closed; uses: by whom;
  opener: how home has them open; handles: their numbers
- creation: how files are made; allocation: room for them; folders: names in folders
- latest_attributes, statics: what is answered about attributes; filemarks: what programs said of a
  file
- foresight: files opened before programs do; heartbeat: home hears that the node is there
"""
