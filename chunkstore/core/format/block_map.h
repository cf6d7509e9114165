// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The block map: where each block of an attached volume is, in a file that the daemon and the
// nbdkit plugin both map. It lives as long as the attachment and is no persistent format.
//
//   map     := header (4096)  entry*  touch*    8 bytes and 4 bytes per block
//   header  := magic "SATBMAP\0" (8)  blocks u64 (8)  touches u64 (8)  space requests u32 (4)  zero
//   entry   := state (bits 0-1)  location (bits 2-63, location.h)
//
//   touch   := order (bits 0-30): 0, or when the machine touched the block first, from 1 on
//              foreseen (bit 31): it was brought, or about to be, before that
//
// An entry is read and written as one atomic 64-bit word. Who writes:
//   absent -> zero | packed   the daemon, once the chunk is in a local pack and synced to readers
//   any    -> dirty           the plugin, after the bytes are in the overlay file
//   dirty  -> zero | packed   the daemon, at a checkpoint, while the machine is paused and flushed
// After a checkpoint the daemon counts the space requests up, and the plugin gives the space back
// that blocks have in the overlay which are not dirty.
// A daemon that fills an absent entry uses compare-and-swap from absent, so that it never undoes a
// plugin's dirty. The order of touches is the plugin's, what was foreseen the daemon's: what
// bringing blocks ahead of the machine is worth is measured by them.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_BLOCK_MAP_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_BLOCK_MAP_H_

#include <cstdint>

#include "chunkstore/core/format/location.h"

namespace satchel {

constexpr char kBlockMapMagic[8] = {'S', 'A', 'T', 'B', 'M', 'A', 'P', '\0'};
constexpr uint64_t kBlockMapHeaderSize = 4096;

constexpr uint32_t kForeseen = uint32_t{1} << 31;

constexpr uint64_t BlockMapSize(uint64_t blocks) { return kBlockMapHeaderSize + blocks * (8 + 4); }

enum class BlockState : uint8_t {
  kAbsent = 0,  // ask the daemon
  kZero = 1,    // 4096 zero bytes
  kPacked = 2,  // in a pack, at the location
  kDirty = 3,   // in the overlay file at the block's own offset
};

struct BlockEntry {
  BlockState state;
  Location at;  // kPacked only, else zero
};

constexpr uint64_t EncodeEntry(const BlockEntry& e) {
  return static_cast<uint64_t>(e.state) | EncodeLocation(e.at);
}

constexpr BlockEntry DecodeEntry(uint64_t word) {
  return BlockEntry{static_cast<BlockState>(word & 3), DecodeLocation(word)};
}

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_BLOCK_MAP_H_
