// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Locks of a volume's blocks, each for the runs of kBlocks blocks that fall to it. Nobody holds two
// of them, and nobody holds one while he waits for the daemon.
#ifndef SATCHEL_VOLUMES_PLUGIN_STRIPES_H_
#define SATCHEL_VOLUMES_PLUGIN_STRIPES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "chunkstore/core/os/mutex.h"

namespace satchel {

class Stripes {
 public:
  static constexpr uint64_t kBlocks = 16;

  SharedMutex* Of(uint64_t block) { return &locks_[block / kBlocks % locks_.size()]; }

  // The first block behind the run that `block` is in.
  static uint64_t EndOf(uint64_t block) { return (block / kBlocks + 1) * kBlocks; }

 private:
  std::array<SharedMutex, 64> locks_;
};

}  // namespace satchel

#endif  // SATCHEL_VOLUMES_PLUGIN_STRIPES_H_
