// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_OVERLAY_PLUGIN_SHARED_MAP_H_
#define SATCHEL_OVERLAY_PLUGIN_SHARED_MAP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "chunkstore/core/block_map.h"
#include "chunkstore/core/status.h"

namespace satchel {

// The plugin's mapping of a block map file. Thread-safe, within this process and with the daemon.
class SharedMap {
 public:
  // kDamaged when the file is not a block map of `blocks` blocks.
  static Status Open(const std::string& path, uint64_t blocks, std::unique_ptr<SharedMap>* map);

  ~SharedMap();
  SharedMap(const SharedMap&) = delete;
  SharedMap& operator=(const SharedMap&) = delete;

  uint64_t blocks() const { return blocks_; }
  uint64_t Load(uint64_t block) const { return entries_[block].load(std::memory_order_acquire); }
  BlockState StateOf(uint64_t block) const { return DecodeEntry(Load(block)).state; }

  // The blocks' bytes must be in the overlay file already.
  void MarkDirty(uint64_t first, uint64_t count);

 private:
  SharedMap(void* base, uint64_t blocks);

  void* const base_;
  const uint64_t blocks_;
  std::atomic<uint64_t>* const entries_;
};

}  // namespace satchel

#endif  // SATCHEL_OVERLAY_PLUGIN_SHARED_MAP_H_
