// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What is done with whole volumes: bringing content in, reading it out, and the traffic between a
// table and the block map of an attached volume.
//
// Content comes in through one pipeline, for an import and for a checkpoint's dirty blocks alike:
// batches of leaf pages are handed out in order; each worker reads its blocks, names them, looks
// them up and compresses the new ones, without any lock; then the batches are appended in the order
// in which they were handed out, so that the packs and the root do not depend on timing and
// neighbours lie side by side. Memory is a few batches, however large the volume is.
#ifndef SATCHEL_CHUNKSTORE_CORE_VOLUME_VOLUME_H_
#define SATCHEL_CHUNKSTORE_CORE_VOLUME_VOLUME_H_

#include <cstdint>
#include <map>
#include <vector>

#include "chunkstore/core/format/table.h"
#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/workers.h"
#include "chunkstore/core/packs/chunks.h"
#include "chunkstore/core/volume/block_map_file.h"

namespace satchel {

// Raw content. Thread-safe.
class BlockSource {
 public:
  virtual ~BlockSource() = default;

  virtual uint64_t size() const = 0;  // bytes

  // Reads whole blocks; what lies past the end is zero.
  virtual Status Read(uint64_t first, uint32_t count, uint8_t* out) = 0;

  // The next blocks [*begin, *end) at or after `first` that may hold data; the rest is zero.
  // *begin == *end when there are no more.
  virtual Status NextData(uint64_t first, uint64_t* begin, uint64_t* end) = 0;
};

// A file or a block device. `file` outlives the source.
Status OpenFileSource(File* file, std::unique_ptr<BlockSource>* source);

// `data` outlives the source.
std::unique_ptr<BlockSource> MemorySource(const uint8_t* data, size_t n);

// What of the blocks of a volume was new, by the level of zstd at which it was stored; 0: raw.
using Stored = std::map<int, Chunks::Added>;

// Makes the table of `source`. With a `base` (null: none), a block that equals the base's block at
// the same place costs no lookup; all chunks of the base are here. Not synced.
Status ImportVolume(Chunks* chunks, BlockSource* source, const TableRoot* base,
                    const ProgressFn& progress, TableRoot* root, Stored* stored);

// Writes the volume into `out`, which is empty; zero blocks become holes. Every chunk's hashes are
// checked. Not synced.
Status ExportVolume(Chunks* chunks, const TableRoot& root, File* out, const ProgressFn& progress);

// The same without writing: whether all of it is here and whole.
Status CheckVolume(Chunks* chunks, const TableRoot& root, const ProgressFn& progress);

// Bytes [offset, offset + length); kUsage if the volume is shorter.
Status ReadVolume(Chunks* chunks, const TableRoot& root, uint64_t offset, uint64_t length,
                  uint8_t* out);

// Fills the absent entries of [first, first + count) whose content is known to be zero or is here.
// *missing becomes what has to be fetched before another call gets further: table pages if any is
// missing, else chunks; no reference twice.
Status ResolveBlocks(Chunks* chunks, const TableRoot& root, BlockMap* map, uint64_t first,
                     uint64_t count, std::vector<ChunkRef>* missing);

// The same question without a map: what is not here of the blocks [first, first + count).
Status MissingBlocks(Chunks* chunks, const TableRoot& root, uint64_t first, uint64_t count,
                     std::vector<ChunkRef>* missing);

// Stores the `n` blocks at `data`, block i of which belongs at numbers[i], and fills those entries
// that are absent. kUsage, before anything is done, if the map has no such block.
Status PlaceBlocks(Chunks* chunks, BlockMap* map, const uint32_t* numbers, size_t n,
                   const uint8_t* data);

// Stores the dirty blocks of the overlay and gives the root that has them. Then turns those entries
// to packed or zero. All of it is durable after the next Sync; the machine may run until then.
// Nobody writes to the volume meanwhile. After an error the map is as before. The overlay stays as
// it is: BlockMap::AskForSpace.
Status CommitVolume(Chunks* chunks, const TableRoot& root, BlockMap* map, File* overlay,
                    TableRoot* new_root);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_VOLUME_VOLUME_H_
