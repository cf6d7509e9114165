// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// One chunk record, as pack_format.h lays it out, in memory. Pure functions, safe on any bytes and
// from any thread: what comes from a disk, a medium or a peer is checked here before it is used.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_RECORD_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "chunkstore/core/format/chunk_ref.h"
#include "chunkstore/core/format/pack_format.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

constexpr uint32_t kMaxRecordSize = kRecordHeaderSize + kBlockSize;

struct RecordView {
  ChunkRef ref;
  Codec codec;
  uint16_t length;         // bytes of payload
  const uint8_t* payload;  // into the bytes that were parsed

  uint32_t size() const { return kRecordHeaderSize + length; }
};

// Appends the record of the 4096 bytes at `block`, whose name is `ref`, to `out`; compressed when
// that is shorter and `level`, of zstd, is not 0. Returns the bytes of payload.
uint16_t AppendRecord(const ChunkRef& ref, const uint8_t* block, int level, std::string* out);

// Parses the record at the front of `data`: magic, codec, length and checksum agree, and all of it
// lies within `n` bytes. kDamaged otherwise. The content is not decoded.
Status ParseRecord(const uint8_t* data, size_t n, RecordView* record);

// The same of a record whose payload stands elsewhere than behind its header, and which is raw:
// kDamaged if it is not, or if the checksum does not agree.
Status CheckRawRecord(const RecordHeader& header, const uint8_t* block);

// Decodes the payload to 4096 bytes at `block`. kInvalid, naming the chunk, if it does not decode.
Status DecodeRecord(const RecordView& record, uint8_t* block);

// DecodeRecord, and both hashes of the block agree with the reference; the zero block is refused.
Status VerifyRecord(const RecordView& record, uint8_t* block);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_RECORD_H_
