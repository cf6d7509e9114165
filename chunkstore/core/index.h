// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The index: chunk reference to place in a pack, in LevelDB. Everything in it can be rebuilt from
// the packs. Described in docs/formats/index.md.
//
//   key   := chunk reference (52)              value := pack u32  offset u32  length u16
//   key   := "end" (3)                         value := pack u32  offset u64
//
// Records before "end" are durable and indexed; what lies behind it was never acknowledged.
#ifndef SATCHEL_CHUNKSTORE_CORE_INDEX_H_
#define SATCHEL_CHUNKSTORE_CORE_INDEX_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/pack_writer.h"
#include "chunkstore/core/ref_map.h"

namespace leveldb {
class DB;
class FilterPolicy;
class Cache;
}  // namespace leveldb

namespace satchel {

// Thread-safe.
class Index {
 public:
  using Entry = RefMap<Location>::Entry;

  ~Index();

  // Makes it if it is not there. kDamaged if it can only be rebuilt.
  static Status Open(const std::string& path, std::unique_ptr<Index>* index);

  // Removes it from disk. Nobody has it open.
  static Status Destroy(const std::string& path);

  Status Get(const ChunkRef& ref, Location* at, bool* found) const;

  // Durable on return, all or nothing. The records must be durable already.
  Status Write(const std::vector<Entry>& put, const std::vector<ChunkRef>& erase, PackPosition end);

  // In the order of the references. An error from `visit` ends it.
  Status ForEach(const std::function<Status(const ChunkRef&, const Location&)>& visit) const;

  // {0, 0} for a new index.
  Status End(PackPosition* end) const;

 private:
  Index() = default;

  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<leveldb::DB> db_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_INDEX_H_
