// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a chunk is in the packs: a record of its own, or a slot of a frame (frame.h).
//
// One 64-bit word says it, and the same word is the value in the index, the entry of the table in
// memory, and, with a block's state in its two lowest bits, the entry of a block map:
//
//   bits 0-1    zero, or the state of a block
//   bits 2-14   length, see below
//   bits 15-31  number of the pack
//   bits 32-59  offset of the header in the pack
//   bits 60-63  slot of the chunk in its frame; zero for a record
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_LOCATION_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_LOCATION_H_

#include <cstdint>

#include "chunkstore/core/format/pack_format.h"

namespace satchel {

// A place in the sequence of all packs.
struct PackPosition {
  uint32_t pack = 0;
  uint64_t offset = 0;
};

// Numbers of packs are below this, and are never used again.
constexpr uint32_t kMaxPackNumber = 1u << 17;

// A frame's length is told in units of this many bytes, rounded up.
constexpr uint32_t kFrameUnit = 16;

struct Location {
  uint32_t pack;
  uint32_t offset;   // of the header of the record or frame
  uint16_t length;   // record: bytes of payload; frame: kBlockSize + units of payload
  uint8_t slot = 0;  // in a frame, from 0 on

  bool in_frame() const { return length > kBlockSize; }

  // Bytes that have to be read there: all of the record, or at least all of the frame.
  uint32_t size() const {
    if (!in_frame()) return kRecordHeaderSize + length;
    return kFrameHeaderSize + (length - kBlockSize) * kFrameUnit;
  }

  // The place of the record or frame, without the slot.
  bool SamePlace(const Location& other) const {
    return pack == other.pack && offset == other.offset && length == other.length;
  }
  bool operator==(const Location& other) const { return SamePlace(other) && slot == other.slot; }
};

constexpr uint16_t FrameLength(uint32_t payload) {
  return static_cast<uint16_t>(kBlockSize + (payload + kFrameUnit - 1) / kFrameUnit);
}

constexpr uint64_t EncodeLocation(const Location& at) {
  return (uint64_t{at.length} << 2) | (uint64_t{at.pack} << 15) | (uint64_t{at.offset} << 32) |
         (uint64_t{at.slot} << 60);
}

constexpr Location DecodeLocation(uint64_t word) {
  return Location{static_cast<uint32_t>((word >> 15) & (kMaxPackNumber - 1)),
                  static_cast<uint32_t>((word >> 32) & 0xfffffff),
                  static_cast<uint16_t>((word >> 2) & 0x1fff), static_cast<uint8_t>(word >> 60)};
}

static_assert(kPackLimit <= uint64_t{1} << 28, "an offset fits");
static_assert(FrameLength(kMaxFramePayload) < 1u << 13, "a length fits");
static_assert(kMaxFrameChunks <= 16, "a slot fits");

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_LOCATION_H_
