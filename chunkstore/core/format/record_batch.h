// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_RECORD_BATCH_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_RECORD_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "chunkstore/core/format/chunk_ref.h"
#include "chunkstore/core/format/record.h"

namespace satchel {

// Records that wait to be appended, one after the other.
struct RecordBatch {
  struct Item {
    ChunkRef ref;
    uint32_t offset;  // in `bytes`; each record begins where the one before it ends
    uint32_t size;
  };

  std::string bytes;
  std::vector<Item> items;
  bool bulk = false;   // part of much that is not read soon
  bool again = false;  // to be stored also if they are in the index

  void Add(const ChunkRef& ref, const uint8_t* block, int level);
  void Add(const RecordView& record, const uint8_t* data);
  void Add(const RecordBatch& other);
  void Clear() {
    bytes.clear();
    items.clear();
  }
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_RECORD_BATCH_H_
