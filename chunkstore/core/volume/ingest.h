// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The pipeline that brings content in; see volume.h for its shape.
#ifndef SATCHEL_CHUNKSTORE_CORE_VOLUME_INGEST_H_
#define SATCHEL_CHUNKSTORE_CORE_VOLUME_INGEST_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "chunkstore/core/packs/chunks.h"
#include "chunkstore/core/volume/volume.h"

namespace satchel {

// One leaf page to write: block 64 * leaf + i comes from the source where bit i of `mask` is set.
struct LeafJob {
  uint64_t leaf;
  uint64_t mask;
};

// Where the content of a block is: its chunk's place, or pack 0 for a block of zeros.
struct BlockPlace {
  uint64_t block;
  Location at;
};

struct IngestPlan {
  // Gives the next jobs, in ascending order of leaves; empty at the end. Called by one thread at a
  // time.
  std::function<Status(std::vector<LeafJob>*)> next;

  BlockSource* source = nullptr;

  // The table to start from: leaves without a job stay as they are there.
  TableRoot start;

  // Blocks of a job's leaf that are not in its mask come from here; null: they are zero.
  const TableRoot* rest = nullptr;

  // Blocks that equal the one of this table need no lookup; null: none.
  const TableRoot* hint = nullptr;

  // Gets the places of all blocks that came from the source, in ascending order, by one thread at a
  // time; they are not durable, and may not be in their packs yet. May be empty.
  std::function<void(const std::vector<BlockPlace>&)> on_places;

  int level = 0;             // of zstd; 0: raw, unless the disk turns out to be the slower
  bool bulk = false;         // what is stored is not read soon
  uint64_t total = 0;        // bytes, for the progress
  Stored* stored = nullptr;  // what of the blocks was new is added to it; null: nobody asks
};

// Blocks and leaves that make a batch for one worker.
constexpr uint32_t kBatchBlocks = 256;
constexpr uint32_t kBatchLeaves = 64;

// The level of what comes next, where that may be raw. What is slower, disk or processors, is seen
// from how full the queue between them is, and not from the clock: a thread that waits for a
// processor beside other programs looks like one that waits for the disk. See Chunks::Waiting.
constexpr int kHastyLevel = -3;
constexpr int LevelBy(double waiting) {
  if (waiting < 0.25) return 0;
  return waiting < 0.4 ? kHastyLevel : kFastLevel;
}

Status RunIngest(Chunks* chunks, const IngestPlan& plan, const ProgressFn& progress,
                 TableRoot* root);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_VOLUME_INGEST_H_
