// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A chunk reference: SHA-1 (the name), then SHA-256 (the truth), 52 bytes without padding, so that
// an array of them is what tables, indexes and the network carry. All zero stands for the all-zero
// block, which is never stored.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_CHUNK_REF_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_CHUNK_REF_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "chunkstore/core/format/pack_format.h"

namespace satchel {

inline std::string Hex(const uint8_t* bytes, size_t n) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < n; ++i) text += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return text;
}

constexpr uint32_t kCutIdSize = 4;
constexpr uint32_t kCutDigestSize = 12;

struct ChunkRef {
  uint8_t bytes[kChunkRefSize];

  const uint8_t* id() const { return bytes; }
  const uint8_t* digest() const { return bytes + kChunkIdSize; }
  uint8_t* id() { return bytes; }
  uint8_t* digest() { return bytes + kChunkIdSize; }

  bool IsZero() const {
    static constexpr uint8_t kZero[kChunkRefSize] = {};
    return std::memcmp(bytes, kZero, kChunkRefSize) == 0;
  }

  // The same SHA-1, another SHA-256.
  bool IsNamesakeOf(const ChunkRef& other) const {
    return std::memcmp(id(), other.id(), kChunkIdSize) == 0 &&
           std::memcmp(digest(), other.digest(), kChunkRefSize - kChunkIdSize) != 0;
  }

  // What an index keeps of a chunk in a frame: kCutIdSize bytes of the SHA-1, which the table in
  // memory is made from, and kCutDigestSize of the SHA-256. The other bytes are zero. Two chunks
  // with one cut reference are as hard to make as 2^64 hashes.
  ChunkRef Cut() const {
    ChunkRef cut{};
    std::memcpy(cut.id(), id(), kCutIdSize);
    std::memcpy(cut.digest(), digest(), kCutDigestSize);
    return cut;
  }

  // Whether this is the reference of the chunk `whole`, or that cut.
  bool Names(const ChunkRef& whole) const {
    return std::memcmp(bytes, whole.bytes, kChunkRefSize) == 0 ||
           std::memcmp(bytes, whole.Cut().bytes, kChunkRefSize) == 0;
  }

  bool IsCut() const { return std::memcmp(bytes, Cut().bytes, kChunkRefSize) == 0; }

  std::string IdHex() const { return Hex(id(), IsCut() ? kCutIdSize : kChunkIdSize); }
};
static_assert(sizeof(ChunkRef) == kChunkRefSize && alignof(ChunkRef) == 1, "no padding");

inline bool operator==(const ChunkRef& a, const ChunkRef& b) {
  return std::memcmp(a.bytes, b.bytes, kChunkRefSize) == 0;
}
inline bool operator!=(const ChunkRef& a, const ChunkRef& b) { return !(a == b); }
inline bool operator<(const ChunkRef& a, const ChunkRef& b) {
  return std::memcmp(a.bytes, b.bytes, kChunkRefSize) < 0;
}

constexpr ChunkRef kZeroRef{};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_CHUNK_REF_H_
