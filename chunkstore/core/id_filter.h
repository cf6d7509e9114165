// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// "Certainly not in the store": a set of the first 32 bits of each stored chunk's SHA-1, in memory,
// so that a block never seen before costs no LevelDB lookup. It is wrong (says maybe) for about
// n / 2^32 of the blocks that are new to a store of n chunks: 0.4 % at 16 million.
//
// Open addressing over the prefix itself: a slot's home is the top bits of the prefix, so growing
// needs nothing but the slots. 5.3 to 10.7 bytes a chunk. Chunks are only added; a removed chunk
// stays a maybe until the store is opened again. Not thread-safe.
#ifndef SATCHEL_CHUNKSTORE_CORE_ID_FILTER_H_
#define SATCHEL_CHUNKSTORE_CORE_ID_FILTER_H_

#include <cstdint>
#include <vector>

#include "chunkstore/core/chunk_ref.h"

namespace satchel {

class IdFilter {
 public:
  IdFilter() : slots_(size_t{1} << kMinBits, kFree) {}

  void Add(const ChunkRef& ref) {
    if ((used_ + 1) * 4 > slots_.size() * 3) Grow();
    Place(Prefix(ref));
  }

  bool Maybe(const ChunkRef& ref) const {
    const uint32_t prefix = Prefix(ref);
    size_t i = prefix >> (32 - bits_);
    while (slots_[i] != kFree) {
      if (slots_[i] == prefix) return true;
      i = (i + 1) & (slots_.size() - 1);
    }
    return false;
  }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr unsigned kMinBits = 12;

  // Zero marks a free slot, so prefix 0 shares the slot of prefix 1: one more maybe.
  static uint32_t Prefix(const ChunkRef& ref) {
    const uint8_t* id = ref.id();
    const uint32_t prefix = (uint32_t{id[0]} << 24) | (uint32_t{id[1]} << 16) |
                            (uint32_t{id[2]} << 8) | uint32_t{id[3]};
    return prefix == kFree ? 1 : prefix;
  }

  void Place(uint32_t prefix) {
    size_t i = prefix >> (32 - bits_);
    while (slots_[i] != kFree) {
      if (slots_[i] == prefix) return;
      i = (i + 1) & (slots_.size() - 1);
    }
    slots_[i] = prefix;
    ++used_;
  }

  void Grow() {
    std::vector<uint32_t> old(slots_.size() * 2, kFree);
    old.swap(slots_);
    ++bits_;
    used_ = 0;
    for (const uint32_t prefix : old) {
      if (prefix != kFree) Place(prefix);
    }
  }

  unsigned bits_ = kMinBits;
  size_t used_ = 0;
  std::vector<uint32_t> slots_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_ID_FILTER_H_
