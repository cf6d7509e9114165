// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The append end of a folder of packs: a buffer in front of the newest pack, and the next pack
// when that is full.
//
// A record is at its Location from the moment that Append returns, but a reader finds it in the
// file only after Flush, and a power cut spares it only after Sync. Not thread-safe: the store
// calls it under its mutex, Sync apart (see PendingSync).
#ifndef SATCHEL_CHUNKSTORE_CORE_PACK_WRITER_H_
#define SATCHEL_CHUNKSTORE_CORE_PACK_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/env.h"
#include "chunkstore/core/pack_reader.h"

namespace satchel {

// A place in the sequence of all packs.
struct PackPosition {
  uint32_t pack = 0;
  uint64_t offset = 0;
};

// What has to be synced for everything before `end` to be durable. Files may be synced without
// the store's mutex.
struct PendingSync {
  std::vector<std::shared_ptr<File>> files;
  std::string folder;  // to be synced first, unless empty
  PackPosition end;

  Status Run(Env* env) const;
};

class PackWriter {
 public:
  // Appends at `end`: pack 0 means that there is none yet. Records end by `limit` bytes.
  PackWriter(Env* env, std::string folder, PackPosition end, uint64_t limit);

  // `record` is one whole record of `n` bytes. On error nothing was appended.
  Status Append(const void* record, size_t n, Location* at);

  // Every appended record can be read from its file afterwards. After an error the same bytes are
  // written again, at the same place, by the next Flush.
  Status Flush();

  // Flushes, and hands over what is not durable yet.
  Status TakePending(PendingSync* pending);

  // The next record begins a new pack.
  Status Roll();

  // Whether a record at this place still is in the buffer only.
  bool InBuffer(const Location& at) const;

  PackPosition end() const { return {pack_, flushed_ + buffer_.size()}; }

 private:
  static constexpr size_t kBufferSize = 1 << 20;

  Status OpenCurrent();
  Status StartPack();

  Env* const env_;
  const std::string folder_;
  const uint64_t limit_;
  uint32_t pack_;
  uint64_t flushed_;  // bytes of the current pack that are in its file
  std::string buffer_;
  std::shared_ptr<File> file_;                   // of the current pack, once it is open
  std::vector<std::shared_ptr<File>> unsynced_;  // ends with file_ if that has unsynced bytes
  bool folder_unsynced_ = false;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACK_WRITER_H_
