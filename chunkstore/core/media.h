// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Packs on a portable medium: FAT32 or exFAT, read by anyone, trusted by nobody, pulled out at any
// moment. Described in docs/formats/media.md.
//
//   ROOT/satchel/media.json            format, version, UUID
//   ROOT/satchel/packs/NNNNNN.pack     closed packs, as in a store; never changed
//   ROOT/satchel/packs/NNNNNN.idx      the index of that pack
//   ROOT/satchel/packs/NNNNNN.tmp      one that is being written, or what is left of it
//
// A file is written under a temporary name, synced and renamed. A pack without a usable index file
// is scanned. A pack that is cut off or garbage gives fewer chunks, never wrong ones: whoever
// receives a record checks its hashes.
#ifndef SATCHEL_CHUNKSTORE_CORE_MEDIA_H_
#define SATCHEL_CHUNKSTORE_CORE_MEDIA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "chunkstore/core/chunks.h"
#include "chunkstore/core/media_index.h"
#include "chunkstore/core/volume.h"

namespace satchel {

constexpr uint64_t kMediaPackLimit = uint64_t{64} << 20;  // bytes

// Chunks that the indexes of one medium may name: an enemy's medium must not fill the memory.
constexpr size_t kMediaChunkLimit = size_t{1} << 24;

// What a call met besides its result.
struct MediaNotes {
  std::vector<ChunkRef> damaged;  // records that are not whole any more
  bool store_failed = false;      // the error is the store's, not the medium's
};

// Thread-safe; Add and Retain run one at a time. One process writes to a medium at a time: the
// caller's duty, as FAT knows no locks. Errors about the medium are kGone, kDenied, kFull, kIo.
class Media {
 public:
  // kExists if there is one. `uuid` identifies it from now on. Other files are left alone.
  static Status Init(Env* env, const std::string& root, const std::string& uuid);

  // kNotFound, kDamaged, kUnsupported. Writes nothing.
  static Status Open(Env* env, const std::string& root, std::unique_ptr<Media>* media);

  void Has(const ChunkRef* refs, size_t n, bool* has);

  // Appends the records of those that are here, in order; their content is not verified.
  Status Records(const ChunkRef* refs, size_t n, std::string* out, MediaNotes* notes);

  // Copies the records of those that are not here yet from a store, in order, into new packs;
  // *written is what that took in bytes. After an error complete packs stay, so that another call
  // goes on from there. kFull, before anything is written, if they do not fit; kMissing if the
  // store lacks one.
  Status Add(Chunks* from, const ChunkRef* refs, size_t n, const ProgressFn& progress,
             uint64_t* written, MediaNotes* notes);

  // Removes packs of which nothing is in `refs`, and copies the rest out of packs that are mostly
  // garbage where there is room to do so. *freed is what that gave back in bytes.
  Status Retain(const ChunkRef* refs, size_t n, uint64_t* freed, MediaNotes* notes);

  Status FreeBytes(uint64_t* bytes);

  size_t chunks();

 private:
  class PackFile;
  class Adder;

  Media(Env* env, std::string root);

  std::string PacksPath() const { return root_ + "/satchel/packs"; }
  std::string PathOf(uint32_t pack, const char* suffix) const;

  Status LoadPacks();
  Status LoadPack(uint32_t pack);
  Status ScanInto(uint32_t pack, std::vector<MediaIndexEntry>* entries);
  Status RemoveLeftovers(uint32_t* next);
  Status RemovePack(uint32_t pack);
  Status Repack(const std::vector<Index::Entry>& live, MediaNotes* notes);
  void AddEntries(uint32_t pack, const std::vector<MediaIndexEntry>& entries);
  Status ReadWhole(const ChunkRef& ref, const Location& at, uint8_t* buffer, RecordView* record,
                   bool* whole, MediaNotes* notes);

  // A file that vanished means that the medium did.
  Status Judge(const Status& status);

  Env* const env_;
  const std::string root_;
  PackReader reader_;

  std::mutex write_mutex_;  // held by Add and Retain

  std::mutex mutex_;  // guards everything below
  RefMap<Location> places_;
  std::map<uint32_t, uint64_t> sizes_;  // bytes of each pack
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_MEDIA_H_
