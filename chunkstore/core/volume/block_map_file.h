// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A block map (block_map.h) that is mapped into this process. Shared with other processes; every
// entry is accessed as one atomic word.
#ifndef SATCHEL_CHUNKSTORE_CORE_VOLUME_BLOCK_MAP_FILE_H_
#define SATCHEL_CHUNKSTORE_CORE_VOLUME_BLOCK_MAP_FILE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "chunkstore/core/format/block_map.h"
#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

constexpr BlockEntry kZeroEntry{BlockState::kZero, {}};
constexpr BlockEntry kDirtyEntry{BlockState::kDirty, {}};

// Where chunks went: the words of their locations before and after.
using Moves = std::unordered_map<uint64_t, uint64_t>;

class BlockMap;

// Leads to a map as long as it is there.
struct BlockMapHandle {
  Mutex mutex;
  BlockMap* map GUARDED_BY(mutex);  // null once it is gone
};

// Thread-safe, but for destruction. Block numbers are below blocks(): the caller's duty.
class BlockMap {
 public:
  ~BlockMap();
  BlockMap(const BlockMap&) = delete;
  BlockMap& operator=(const BlockMap&) = delete;

  // Makes a map in which every block is absent. kExists if the file is there.
  static Status Create(const std::string& path, uint64_t blocks, std::unique_ptr<BlockMap>* map);
  static Status Open(const std::string& path, std::unique_ptr<BlockMap>* map);

  uint64_t blocks() const { return blocks_; }

  BlockEntry Load(uint64_t block) const {
    return DecodeEntry(entries_[block].load(std::memory_order_acquire));
  }

  // Sets the entry if its state is `expected` (kAbsent or kDirty: states of one word only).
  bool Replace(uint64_t block, BlockState expected, const BlockEntry& entry) {
    uint64_t word = EncodeEntry(BlockEntry{expected, {}});
    return entries_[block].compare_exchange_strong(word, EncodeEntry(entry),
                                                   std::memory_order_acq_rel);
  }

  void MarkDirty(uint64_t block) {
    entries_[block].store(EncodeEntry(kDirtyEntry), std::memory_order_release);
  }

  // Has the plugin give back the overlay's space of what is not dirty, soon and once.
  void AskForSpace() { space_requests_->fetch_add(1, std::memory_order_release); }
  uint32_t SpaceRequests() const { return space_requests_->load(std::memory_order_acquire); }

  // The machine reads or writes these blocks.
  void Touch(uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i) {
      if ((touches_[i].load(std::memory_order_relaxed) & ~kForeseen) == 0) TouchFirst(i);
    }
  }

  // Those of these blocks that are absent and that it has not touched are about to be brought.
  void Foresee(uint64_t first, uint64_t count);

  // Blocks that it has touched, blocks that were foreseen, and those that are both.
  struct Foresight {
    uint64_t touched;
    uint64_t foreseen;
    uint64_t used;
  };
  Foresight CountForesight() const;

  // What it has touched but for the first `but` blocks, in the order of the first time.
  std::vector<uint64_t> Touched(uint32_t but = 0) const;

  // Points entries that lead into `pack` to where `moves` has their chunks. How many still do.
  uint64_t Repoint(uint32_t pack, const Moves& moves);

  std::shared_ptr<BlockMapHandle> handle() const { return handle_; }

  // Blocks by state: absent, zero, packed, dirty.
  struct Counts {
    uint64_t by_state[4];

    uint64_t of(BlockState state) const { return by_state[static_cast<size_t>(state)]; }
  };
  Counts Count() const { return Count(0, blocks_); }

  // Of the `count` blocks from `first` on.
  Counts Count(uint64_t first, uint64_t count) const;

 private:
  BlockMap(void* base, size_t size, uint64_t blocks);
  void TouchFirst(uint64_t block);
  static Status Map(int fd, const std::string& path, std::unique_ptr<BlockMap>* map);

  void* const base_;
  const size_t size_;
  const uint64_t blocks_;
  std::atomic<uint64_t>* const touch_count_;
  std::atomic<uint32_t>* const space_requests_;
  std::atomic<uint64_t>* const entries_;
  std::atomic<uint32_t>* const touches_;
  const std::shared_ptr<BlockMapHandle> handle_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_VOLUME_BLOCK_MAP_FILE_H_
