// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A volume as the plugin sees it: a block map that is shared with the daemon, local packs under
// it, a sparse overlay file on top, and somebody to ask for what is absent.
//
// A read of a block depends on its entry in the map:
//
//   absent   ask the daemon, then look again; neighbours that are absent too go into one request
//   zero     zeros
//   packed   what the block reader answers, or the record or frame in the pack, its checksum
//   verified; a block of a frame that was
//            read before: what was kept of it (unpacked.h)
//   dirty    the overlay file
//
// A write goes to the overlay file first and then marks the block dirty, so that a reader never
// finds a dirty block without its bytes. The daemon changes entries at the same time:
//
//   * It fills absent entries by compare-and-swap. A plugin's dirty wins over it.
//   * At a checkpoint, while the machine is paused and no write is under way, it turns dirty into
//     packed or zero; the block's bytes are punched out of the overlay later (reclaimer.h). So a
//     read of the overlay counts only if the entry is still dirty afterwards, and a record that
//     cannot be read counts as an error only if the entry is still the same.
//   * No entry ever becomes absent again.
//
// Writes that cover a block whole take that block's stripe lock shared, writes of a part of a block
// that is not dirty yet take it exclusively (they read, modify and write the whole block).
//
// Not done: no cache of records, which cost as much to decompress as to keep (and the kernel of the
// guest, and FUSE for RAM, have one above us), and no trim back to the table below (a trimmed block
// is a dirty zero block).
#ifndef SATCHEL_VOLUMES_PLUGIN_VOLUME_H_
#define SATCHEL_VOLUMES_PLUGIN_VOLUME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/status.h"
#include "chunkstore/core/packs/pack_reader.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "volumes/plugin/config.h"
#include "volumes/plugin/miss_client.h"
#include "volumes/plugin/reclaimer.h"
#include "volumes/plugin/stripes.h"
#include "volumes/plugin/unpacked.h"

namespace satchel {

// Where the blocks of all volumes come from, besides their overlays. All of it outlives them.
struct Sources {
  PackReader* packs = nullptr;
  MissClient* reader = nullptr;  // reads packs instead, for a plugin that may not
  Unpacked* unpacked = nullptr;  // null: blocks of frames are decompressed each time
  MissClient* misses = nullptr;
};

// All methods are thread-safe. Ranges lie within the volume: nbdkit has checked that.
class Volume {
 public:
  // Opens the map, over that overlay file. `index` is what the daemon knows it by.
  static Status Open(const VolumeConfig& config, uint32_t index, std::unique_ptr<File> overlay,
                     const Sources& sources, std::unique_ptr<Volume>* volume);

  // Begins what goes on beside requests: giving space back. To be called once, when the process is
  // the one that serves.
  Status Start() { return read_only() ? Status() : reclaimer_->Start(); }

  // Gives back the overlay's space of all blocks that are not dirty.
  Status Reclaim() { return reclaimer_->Reclaim(); }

  const std::string& name() const { return config_.name; }
  uint64_t size() const { return config_.size; }
  bool read_only() const { return config_.read_only; }

  Status Read(uint64_t offset, uint64_t count, char* out);
  Status Write(uint64_t offset, uint64_t count, const char* data);

  // The range reads as zeros afterwards; whole blocks take no space in the overlay.
  Status Zero(uint64_t offset, uint64_t count);

  // As Zero for the blocks that the range covers whole; the others stay as they are.
  Status Trim(uint64_t offset, uint64_t count);

  // What has been written is durable in the overlay file.
  Status Flush();

  // Calls `visit` for each extent from `offset` on, in order, until it returns false. `zero`: all
  // its blocks are known to be zero. What is absent counts as data.
  void Extents(uint64_t offset, uint64_t count,
               const std::function<bool(uint64_t offset, uint64_t length, bool zero)>& visit) const;

 private:
  // A piece of a request: whole blocks of one stripe, or a part of one block.
  struct Span {
    uint64_t offset;
    uint64_t length;
    bool whole;  // the last block of the volume is whole up to the volume's end
  };

  Volume(VolumeConfig config, uint32_t index, const Sources& sources);

  BlockState StateOf(uint64_t block) const { return map_->Load(block).state; }
  void Touch(uint64_t offset, uint64_t count);
  uint64_t RunEnd(uint64_t block, uint64_t end, BlockState state) const;
  Status Fetch(uint64_t first, uint64_t count, std::string* content);
  Status ReadDirty(uint64_t offset, uint64_t length, char* out, bool* valid);
  Status ReadPacked(uint64_t block, uint64_t skip, uint64_t length, char* out, bool* valid);
  Status AskReader(uint64_t block, uint64_t n, uint8_t* out);
  Status ReadChunk(const Location& at, uint8_t* block);
  uint64_t ReadPackedRun(uint64_t block, uint64_t count, char* out);
  Status ReadOverlay(uint64_t offset, uint64_t length, char* out);

  Status ForEachSpan(uint64_t offset, uint64_t count,
                     const std::function<Status(const Span&)>& visit);
  Status Dirty(SharedMutex* stripe, uint64_t offset, uint64_t length, const char* data)
      REQUIRES_SHARED(stripe);
  Status DirtyZeros(SharedMutex* stripe, uint64_t offset, uint64_t length) REQUIRES_SHARED(stripe);
  Status ZerosInto(SharedMutex* stripe, uint64_t offset, uint64_t length) REQUIRES_SHARED(stripe);
  void MarkDirty(SharedMutex* stripe, uint64_t offset, uint64_t length) REQUIRES_SHARED(stripe);
  Status WriteWhole(const Span& span, const char* data);
  Status WritePart(const Span& span, const char* data);
  Status ZeroWhole(const Span& span);
  SharedMutex* StripeOf(uint64_t offset) { return stripes_.Of(offset / kBlockSize); }

  const VolumeConfig config_;
  const uint32_t index_;
  const Sources sources_;
  std::unique_ptr<BlockMap> map_;
  std::unique_ptr<File> overlay_;
  Stripes stripes_;
  std::unique_ptr<Reclaimer> reclaimer_;
};

}  // namespace satchel

#endif  // SATCHEL_VOLUMES_PLUGIN_VOLUME_H_
