// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The block map: where each block of an attached volume is, in a file that the daemon and the
// nbdkit plugin both map. It lives as long as the attachment and is no persistent format.
//
//   map     := header (4096)  entry*            one 8-byte entry per block
//   header  := magic "SATBMAP\0" (8)  blocks u64 (8)  zero
//   entry   := state (bits 0-1)  length (bits 2-14)  pack (bits 15-31)  offset (bits 32-63)
//
// An entry is read and written as one atomic 64-bit word. Who writes:
//   absent -> zero | packed   the daemon, once the chunk is in a local pack and synced to readers
//   any    -> dirty           the plugin, after the bytes are in the overlay file
//   dirty  -> zero | packed   the daemon, at a checkpoint, while the machine is paused and flushed
// A daemon that fills an absent entry uses compare-and-swap from absent, so that it never undoes a
// plugin's dirty.
#ifndef SATCHEL_CHUNKSTORE_CORE_BLOCK_MAP_H_
#define SATCHEL_CHUNKSTORE_CORE_BLOCK_MAP_H_

#include <cstdint>

namespace satchel {

constexpr char kBlockMapMagic[8] = {'S', 'A', 'T', 'B', 'M', 'A', 'P', '\0'};
constexpr uint64_t kBlockMapHeaderSize = 4096;

enum class BlockState : uint8_t {
  kAbsent = 0,  // ask the daemon
  kZero = 1,    // 4096 zero bytes
  kPacked = 2,  // record at `offset` of pack `pack`, `length` bytes of payload
  kDirty = 3,   // in the overlay file at the block's own offset
};

struct BlockEntry {
  BlockState state;
  uint16_t length;  // bytes of payload, 1 to 4096; 4096 means stored raw
  uint32_t pack;    // number of the pack, below 2^17
  uint32_t offset;  // of the record header in the pack
};

constexpr uint64_t EncodeEntry(const BlockEntry& e) {
  return static_cast<uint64_t>(e.state) | (static_cast<uint64_t>(e.length) << 2) |
         (static_cast<uint64_t>(e.pack) << 15) | (static_cast<uint64_t>(e.offset) << 32);
}

constexpr BlockEntry DecodeEntry(uint64_t word) {
  return BlockEntry{static_cast<BlockState>(word & 3), static_cast<uint16_t>((word >> 2) & 0x1fff),
                    static_cast<uint32_t>((word >> 15) & 0x1ffff),
                    static_cast<uint32_t>(word >> 32)};
}

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_BLOCK_MAP_H_
