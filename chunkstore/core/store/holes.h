// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Holes in a pack: its garbage is given back to the disk where it lies, without room for a copy of
// the rest.
//
// Where the index still names the garbage, no chunk of it may look as if it were here:
// Chunks::Confirm wants a header where the index says. Therefore these headers are zero, durably,
// before the rest of a hole goes.
#ifndef SATCHEL_CHUNKSTORE_CORE_STORE_HOLES_H_
#define SATCHEL_CHUNKSTORE_CORE_STORE_HOLES_H_

#include <cstdint>
#include <vector>

#include "chunkstore/core/format/location.h"
#include "chunkstore/core/os/env.h"

namespace satchel {

// The chunks that the index has in one pack. Several of them may be in one frame.
struct PackUse {
  std::vector<Location> kept;
  std::vector<Location> others;
};

// Makes holes between the kept chunks of a pack of `end` bytes. Adds the bytes that the disk gets
// back to *freed: none where its file system has no holes. *left: the bytes that the file still has
// there. Sorts `use`.
Status MakeHoles(File* file, PackUse* use, uint64_t end, uint64_t* freed, uint64_t* left);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_STORE_HOLES_H_
