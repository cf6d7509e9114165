// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Settling: what an import stored as it came, fast, is compressed well, later. The chunks of a pack
// that still are records go into frames (frame.h) in new packs, and the pack is removed.
//
// Two passes. Table pages are first: all pages of all packs that are to be settled are sorted by
// the smallest reference in them. Two versions of one leaf share most of their references, hence
// most likely the smallest, so they meet in one frame, where the second costs a few bytes instead
// of 3,400. Then the content, pack by pack, in the order in which it stands there: that of the
// disk it came from.
//
// The rules of prune hold: first the copies, then a sync, then the index, and only then is a pack
// removed, when the index has nothing in it any more. A crash, a cancellation and a full disk
// leave a store that is whole, and what was settled stays settled; what is to be done is seen from
// the index, so the next call goes on from there. Frames stand in packs of their own, so that they
// are not touched again when what comes later is settled.
//
// It runs beside everything else. Its threads wait between two frames while an import or a
// checkpoint runs; for whoever wants the store alone (prune) they end the pack early and come
// back. A block map that points into a pack that goes is made to point to the frames, a word at a
// time; the nbdkit plugin expects that of any entry (block_map.h). Where the chunk of an entry went
// is found as any chunk is: its name is read in the old pack, its place in the index. So it does
// not matter who settled it, and whether that came to its end. A pack is removed only when no map
// that this store knows points there.
//
// Not done: a frame is never made again for being badly filled; prune takes apart those of which
// much is garbage, and the next settling makes new ones of them.
#ifndef SATCHEL_CHUNKSTORE_CORE_STORE_SETTLE_H_
#define SATCHEL_CHUNKSTORE_CORE_STORE_SETTLE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/packs/chunks.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "chunkstore/core/volume/volume.h"

namespace satchel {

struct SettleOptions {
  bool background = false;  // its threads take only what nobody else wants of CPU and disk
  int level = kFrameLevel;  // of zstd
};

struct SettleReport {
  uint64_t chunks = 0;   // that went into frames
  uint64_t damaged = 0;  // chunks that could not be read; their packs stay
  uint64_t pinned = 0;   // packs that stay because a block map points there
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;  // of packs
};

// Whether to make another frame now.
enum class Turn : uint8_t {
  kGo,
  kWait,  // something that matters more runs
  kEnd,   // somebody wants the store alone
};

// Puts `entries`, in the order in which they are to stand, into frames. Not synced. *complete
// becomes false when `turn`, which is asked before each frame, ends it early; that is no error.
struct FramePlan {
  std::vector<Index::Entry> entries;
  FrameCodec codec = FrameCodec::kBlocks;
  std::function<Turn()> turn;
  SettleOptions options;
};
Status MakeFrames(Chunks* chunks, const FramePlan& plan, const ProgressFn& progress,
                  SettleReport* report, bool* complete);

// What of `pack` the index has, in the order of the pack.
Status EntriesOf(Index* index, uint32_t pack, std::vector<Index::Entry>* entries);

// A table page, and what pages are sorted by.
struct PageEntry {
  uint64_t key;
  Index::Entry entry;
};

// Those of `entries` that are table pages and not in frames yet.
Status FindPages(Chunks* chunks, const std::vector<Index::Entry>& entries,
                 std::vector<PageEntry>* pages);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_STORE_SETTLE_H_
