// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A block map (block_map.h) that is mapped into this process. Shared with other processes; every
// entry is accessed as one atomic word.
//
// The plugin may be a stranger's by now and may write any entry. So the daemon keeps each place
// that it has given out in a second file beside the map, which the plugin cannot write, and
// believes only that one. What reads packs for a plugin (volumes/plugin/block_reader.cc) goes by it
// too.
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

// The file of the places beside a map: a word for each block, an entry that is packed or 0.
std::string PlacesPath(const std::string& map_path);

// A mapping of those words, by their owner or, to be read, by another process. Thread-safe.
class PlacesFile {
 public:
  ~PlacesFile();
  PlacesFile(const PlacesFile&) = delete;
  PlacesFile& operator=(const PlacesFile&) = delete;

  // Makes a file of zeros. kExists if it is there.
  static Status Create(const std::string& path, uint64_t blocks,
                       std::unique_ptr<PlacesFile>* places);
  static Status Open(const std::string& path, bool writable, std::unique_ptr<PlacesFile>* places);

  uint64_t blocks() const { return size_ / sizeof(uint64_t); }
  uint64_t Load(uint64_t block) const { return words_[block].load(std::memory_order_acquire); }

  // For the owner, one thread at a time. false: the file system has no room for it.
  bool Store(uint64_t block, uint64_t word);

 private:
  PlacesFile(int fd, void* base, size_t size);
  static Status Map(int fd, const std::string& path, bool writable,
                    std::unique_ptr<PlacesFile>* places);

  const int fd_;  // -1: only to be read
  void* const base_;
  const size_t size_;
  std::atomic<uint64_t>* const words_;
  std::vector<bool> backed_;  // pages with room: without it a store raises SIGBUS
};

// Thread-safe, but for destruction. Block numbers are below blocks(): the caller's duty.
class BlockMap {
 public:
  ~BlockMap();
  BlockMap(const BlockMap&) = delete;
  BlockMap& operator=(const BlockMap&) = delete;

  // Makes a map in which every block is absent, and its places. kExists if a file is there.
  static Status Create(const std::string& path, uint64_t blocks, std::unique_ptr<BlockMap>* map);
  static Status Open(const std::string& path, std::unique_ptr<BlockMap>* map);

  // For the plugin: without the places. Entries are believed.
  static Status OpenShared(const std::string& path, std::unique_ptr<BlockMap>* map);

  uint64_t blocks() const { return blocks_; }

  // An entry that says packed where no place was given out counts as absent.
  BlockEntry Load(uint64_t block) const { return DecodeEntry(Word(block)); }

  // Sets the entry if its state is `expected` (kAbsent or kDirty: states of one word only). It
  // stays where the file system has no room for its place.
  bool Replace(uint64_t block, BlockState expected, const BlockEntry& entry);

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

  bool Move(uint64_t block, uint64_t from, uint64_t to);

  uint64_t Word(uint64_t block) const {
    const uint64_t word = entries_[block].load(std::memory_order_acquire);
    const bool packed = (word & 3) == static_cast<uint64_t>(BlockState::kPacked);
    return packed && places_ != nullptr ? places_->Load(block) : word;
  }
  static Status Map(int fd, const std::string& path, std::unique_ptr<BlockMap>* map);

  void* const base_;
  const size_t size_;
  const uint64_t blocks_;
  std::atomic<uint64_t>* const touch_count_;
  std::atomic<uint32_t>* const space_requests_;
  std::atomic<uint64_t>* const entries_;
  std::atomic<uint32_t>* const touches_;
  std::unique_ptr<PlacesFile> places_;  // null: the plugin's
  Mutex placing_;                       // an entry and its place change together
  const std::shared_ptr<BlockMapHandle> handle_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_VOLUME_BLOCK_MAP_FILE_H_
