// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Random reads of chunks from pack files: used by the store, by media and by the nbdkit
// plugin, which opens no store.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_READER_H_
#define SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "chunkstore/core/format/location.h"
#include "chunkstore/core/format/record.h"
#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/mutex.h"

namespace satchel {

// "000123.pack" for 123, and back; false for any other name.
std::string PackName(uint32_t pack);
bool ParsePackName(const std::string& name, uint32_t* pack);

// Thread-safe. Pack files are opened at first use and at most kMaxOpen are kept open.
class PackReader {
 public:
  // `folder` holds the packs. `env` outlives the reader.
  PackReader(Env* env, std::string folder);
  ~PackReader();

  // Reads the chunk at `at`, in whatever form it is there, to the 4096 bytes at `block`: one pread,
  // a checksum, decompression. kDamaged or kInvalid for what is not whole; kNotFound for a pack
  // that is not there. Does not check the SHA-256: the chunk was verified when it was admitted.
  // The frames that were read last are kept, so that neighbours are not read again.
  Status ReadBlock(const Location& at, uint8_t* block);

  // Reads `n` chunks, at most kMaxRun, to blocks one behind the other, with one pread. They are
  // records that Follow each other. Errors as ReadBlock.
  Status ReadRun(const Location* at, size_t n, uint8_t* blocks);
  static constexpr size_t kMaxRun = 256;

  // Whether `next` is a record that begins where the record at `at` ends.
  static bool Follows(const Location& next, const Location& at) {
    return !at.in_frame() && !next.in_frame() && next.pack == at.pack &&
           next.offset == at.offset + at.size();
  }

  // A record undecoded, checksum checked. `buffer` has room for kMaxRecordSize bytes and `record`
  // points into it. kDamaged if the chunk is in a frame.
  Status ReadRaw(const Location& at, uint8_t* buffer, RecordView* record);

  // Bytes of a pack, fewer at its end, for a caller that parses several records out of them.
  Status ReadSpan(uint32_t pack, uint64_t offset, size_t n, uint8_t* buffer, size_t* got);

  // The same of bytes that are not read again soon (File::ReadUncached).
  Status ReadSpanUncached(uint32_t pack, uint64_t offset, size_t n, uint8_t* buffer, size_t* got);

  // Whether the record at `at` has this reference and length in its header. Reads nothing else of
  // it, so it says nothing about the payload. false when it cannot be read, and for a frame.
  bool IsRecordOf(const ChunkRef& ref, const Location& at);

  // Whether a frame of this length that has this slot begins there, by its header alone.
  bool IsFrame(const Location& at);

  // Closes a pack that is about to be removed.
  void Forget(uint32_t pack);

 private:
  struct KeptFrame;

  static constexpr size_t kMaxOpen = 256;

  // For each processor, of frames that nobody reads from now. Two, because a volume that was
  // changed here and there alternates between the frames of its base and those of the changes.
  static constexpr size_t kKeptFrames = 2;
  static constexpr size_t kMostFrames = 64;  // of all processors

  Status Find(uint32_t pack, std::shared_ptr<File>* file);
  Status ReadRawRun(const Location* at, size_t n, uint8_t* blocks);
  Status ReadSlot(const Location& at, uint8_t* block);
  Status ReadFrame(const Location& at, KeptFrame* frame, uint8_t* block);
  std::unique_ptr<KeptFrame> TakeFrame(const Location& at);

  Env* const env_;
  const std::string folder_;
  Mutex frames_mutex_;
  std::vector<std::unique_ptr<KeptFrame>> frames_ GUARDED_BY(frames_mutex_);  // last used last

  SharedMutex mutex_;
  std::unordered_map<uint32_t, std::shared_ptr<File>> files_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_READER_H_
