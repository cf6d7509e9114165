// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of contents of chunkstore._native._core; its types are in chunkstore/_native/_core.pyi.
#include "chunkstore/binding/convert.h"

PYBIND11_MODULE(_core, m) {
  m.doc() = "The chunk store engine.";
  satchel::init_block_map(m);
  satchel::init_compression(m);
  satchel::init_store(m);
  satchel::init_media(m);
  satchel::init_pages(m);
  satchel::init_dump(m);
}
