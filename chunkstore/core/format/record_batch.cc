// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/record_batch.h"

namespace satchel {

void RecordBatch::Add(const ChunkRef& ref, const uint8_t* block, int level) {
  const auto offset = static_cast<uint32_t>(bytes.size());
  const uint32_t size = kRecordHeaderSize + AppendRecord(ref, block, level, &bytes);
  items.push_back(Item{ref, offset, size});
}

void RecordBatch::Add(const RecordView& record, const uint8_t* data) {
  items.push_back(Item{record.ref, static_cast<uint32_t>(bytes.size()), record.size()});
  bytes.append(reinterpret_cast<const char*>(data), record.size());
}

void RecordBatch::Add(const RecordBatch& other) {
  const auto begin = static_cast<uint32_t>(bytes.size());
  for (const Item& item : other.items) items.push_back({item.ref, begin + item.offset, item.size});
  bytes += other.bytes;
}

}  // namespace satchel
