// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/record.h"

#include <zstd.h>

#include <cstring>

#include "chunkstore/core/format/chunk_status.h"
#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/format/zstd_contexts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace satchel {
namespace {

// Header bytes 0 to 59 and the payload lie apart when a record is being written, so the checksum
// is defined over their concatenation, which a parsed record does not have either: the checksum
// field is between them.
uint32_t RecordChecksum(const uint8_t* header, const uint8_t* payload, size_t length) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, header, offsetof(RecordHeader, checksum));
  XXH3_64bits_update(&state, payload, length);
  return static_cast<uint32_t>(XXH3_64bits_digest(&state));
}

Status Damaged(const char* why) { return Status::Make(Kind::kDamaged, "bad chunk record", why); }

}  // namespace

uint16_t AppendRecord(const ChunkRef& ref, const uint8_t* block, int level, std::string* out) {
  uint8_t frame[kBlockSize];
  const uint8_t* payload = block;
  RecordHeader fields{};
  fields.magic = kRecordMagic;
  fields.codec = Codec::kRaw;
  fields.length = kBlockSize;
  if (level != 0) {
    // One byte less than a block: what does not get shorter is stored as it is.
    const size_t length = ZSTD_compressCCtx(ZstdContexts::OfThread().compress, frame,
                                            sizeof frame - 1, block, kBlockSize, level);
    if (!ZSTD_isError(length)) {
      payload = frame;
      fields.codec = Codec::kZstd;
      fields.length = static_cast<uint16_t>(length);
    }
  }
  std::memcpy(fields.id, ref.id(), kChunkIdSize);
  std::memcpy(fields.digest, ref.digest(), kDigestSize);
  fields.checksum =
      RecordChecksum(reinterpret_cast<const uint8_t*>(&fields), payload, fields.length);
  out->append(reinterpret_cast<const char*>(&fields), sizeof fields);
  out->append(reinterpret_cast<const char*>(payload), fields.length);
  return fields.length;
}

Status ParseRecord(const uint8_t* data, size_t n, RecordView* record) {
  if (n < kRecordHeaderSize) return Damaged("the header is cut off");
  RecordHeader header;
  std::memcpy(&header, data, sizeof header);
  if (header.magic != kRecordMagic) return Damaged("wrong magic");
  if (header.reserved != 0) return Damaged("a reserved field is not zero");
  const bool raw = header.codec == Codec::kRaw && header.length == kBlockSize;
  const bool zstd = header.codec == Codec::kZstd && header.length > 0 && header.length < kBlockSize;
  if (!raw && !zstd) return Damaged("codec and length do not go together");
  if (n - kRecordHeaderSize < header.length) return Damaged("the payload is cut off");

  const uint8_t* payload = data + kRecordHeaderSize;
  if (RecordChecksum(data, payload, header.length) != header.checksum) {
    return Damaged("the checksum does not agree");
  }
  std::memcpy(record->ref.id(), header.id, kChunkIdSize);
  std::memcpy(record->ref.digest(), header.digest, kDigestSize);
  record->codec = header.codec;
  record->length = header.length;
  record->payload = payload;
  return {};
}

Status CheckRawRecord(const RecordHeader& header, const uint8_t* block) {
  if (header.magic != kRecordMagic) return Damaged("wrong magic");
  if (header.reserved != 0) return Damaged("a reserved field is not zero");
  if (header.codec != Codec::kRaw || header.length != kBlockSize) return Damaged("it is not raw");
  const auto* bytes = reinterpret_cast<const uint8_t*>(&header);
  if (RecordChecksum(bytes, block, kBlockSize) == header.checksum) return {};
  return Damaged("the checksum does not agree");
}

Status DecodeRecord(const RecordView& record, uint8_t* block) {
  if (record.codec == Codec::kRaw) {
    std::memcpy(block, record.payload, kBlockSize);
    return {};
  }
  const size_t n = ZSTD_decompressDCtx(ZstdContexts::OfThread().decompress, block, kBlockSize,
                                       record.payload, record.length);
  if (n == kBlockSize) return {};
  return InvalidChunk(record.ref, "its frame does not decompress to 4096 bytes");
}

Status VerifyRecord(const RecordView& record, uint8_t* block) {
  SATCHEL_RETURN_IF_ERROR(DecodeRecord(record, block));
  if (IsZeroBlock(block)) return InvalidChunk(record.ref, "the zero block is never stored");
  const ChunkRef actual = HashBlock(block);
  if (std::memcmp(actual.id(), record.ref.id(), kChunkIdSize) != 0) {
    return InvalidChunk(record.ref, "its SHA-1 disagrees");
  }
  if (std::memcmp(actual.digest(), record.ref.digest(), kDigestSize) != 0) {
    return InvalidChunk(record.ref, "its SHA-256 disagrees");
  }
  return {};
}

}  // namespace satchel
