// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The index: chunk reference to place in a pack, in LevelDB. Everything in it can be rebuilt from
// the packs. Described in docs/formats/store.md.
//
//   key   := chunk reference (52)              value := location u64 (location.h), of a record
//   key   := SHA-1 (4)  SHA-256 (12), cut      value := location u64, in a frame
//   key   := "end" (3)                         value := pack u32  offset u64
//
// A chunk has one of the first two. Of one in a frame, which is most of a store that is settled,
// only as much of its name is kept as tells chunks apart; the whole of it is had by hashing what
// is there, or stands in a table. The functions below take either form of a reference and give
// that which is there (ChunkRef::Cut).
//
// Records before "end" are durable and indexed; what lies behind it was never acknowledged. An
// index without it is being rebuilt, or has to be.
#ifndef SATCHEL_CHUNKSTORE_CORE_INDEX_INDEX_H_
#define SATCHEL_CHUNKSTORE_CORE_INDEX_INDEX_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/format/location.h"
#include "chunkstore/core/format/ref_map.h"
#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/reading_env.h"

namespace leveldb {
class Cache;
class DB;
class Env;
class FilterPolicy;
}  // namespace leveldb

namespace satchel {

// Thread-safe.
class Index {
 public:
  using Entry = RefMap<Location>::Entry;

  ~Index();

  // Makes it if it is not there. kDamaged if it can only be rebuilt. `env` outlives it.
  static Status Open(Env* env, const std::string& path, std::unique_ptr<Index>* index);

  // Open by who writes nothing. Everything is in it that was written.
  static Status OpenToRead(ReadingEnv* env, const std::string& path, std::unique_ptr<Index>* index);

  // Removes it from disk, all at once: what a crash leaves of it is never opened. Nobody has it
  // open.
  static Status Destroy(Env* env, const std::string& path);

  Status Get(const ChunkRef& ref, Location* at, bool* found) const;

  // Whether it has another chunk with the same SHA-1 in a record of its own.
  Status HasNamesake(const ChunkRef& ref, bool* found) const;

  // Durable on return, all or nothing. The records must be durable already. What is put with the
  // whole reference of a chunk in a frame is in no record any more; `erase` comes before `put`.
  Status Write(const std::vector<Entry>& put, const std::vector<ChunkRef>& erase, PackPosition end);

  // References under which chunks that are put into records may still stand as in frames: to be
  // erased where that is possible.
  static std::vector<ChunkRef> OfFrames(const std::vector<Entry>& put);

  // Write of an index that is being rebuilt: it has no end before the last of it.
  Status Fill(const std::vector<Entry>& put);

  // In the order of the references. An error from `visit` ends it.
  using Visit = std::function<Status(const ChunkRef&, const Location&)>;
  Status ForEach(const Visit& visit) const { return ForEachIn(0, 1, visit); }

  // The same of part `part` of `parts` (a power of two, at most 256) into which the references are
  // divided by their first bits.
  Status ForEachIn(unsigned part, unsigned parts, const Visit& visit) const;

  // On the disk, about; what was written since it was opened may be missing.
  uint64_t Bytes() const;

  // Brings what was written in many pieces together; afterwards it takes the least space. After an
  // error the index takes no more writes until it is opened again; what it has stays.
  Status Compact();

  // {0, 0} where there is none. `complete` (may be null): whether there is one.
  Status End(PackPosition* end, bool* complete = nullptr) const;

 private:
  Index() = default;

  Status GetRecord(const ChunkRef& cut, Location* at, bool* found) const;
  Status Write(const std::vector<Entry>& put, const std::vector<ChunkRef>& erase,
               const PackPosition* end);

  std::unique_ptr<leveldb::Env> env_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<leveldb::DB> db_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_INDEX_INDEX_H_
