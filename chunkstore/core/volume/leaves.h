// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Leaf pages of a table, many at once. An import lays 64 of them side by side, so who needs the
// leaves of one part of a volume gets them with one read.
#ifndef SATCHEL_CHUNKSTORE_CORE_VOLUME_LEAVES_H_
#define SATCHEL_CHUNKSTORE_CORE_VOLUME_LEAVES_H_

#include <cstdint>
#include <vector>

#include "chunkstore/core/format/table.h"
#include "chunkstore/core/packs/bulk_reader.h"
#include "chunkstore/core/packs/chunks.h"

namespace satchel {

// In place of a leaf: none is asked for.
constexpr uint64_t kNoLeaf = ~uint64_t{0};

// Reads the leaf page of each number, and the pages above them, by `reader`, which reads the packs
// of `chunks`. pages[i] is zero where the table is, behind its end, and for kNoLeaf. `buffer` has
// room for as many blocks. kMissing if a page is not here or went bad.
Status ReadLeaves(Chunks* chunks, const TableRoot& root, const std::vector<uint64_t>& leaves,
                  BulkReader* reader, uint8_t* buffer, Page* pages);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_VOLUME_LEAVES_H_
