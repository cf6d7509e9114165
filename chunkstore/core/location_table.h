// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Where chunks may be: for each stored chunk the first 32 bits of its SHA-1 and its place, in
// memory, so that neither a block never seen before nor one that is there costs a LevelDB lookup.
// A candidate says "maybe": whoever asks compares the reference in the record's header. Two of 16
// million chunks share their 32 bits so rarely that one new block in 250 is compared in vain.
//
// 12 bytes a chunk: the chunks are sorted by prefix, and a directory of the upper 16 bits leads to
// the few that a search has to look at. Additions go to a small hash table beside it, which is
// merged into the sorted part when it has an eighth of its size; so that adding n chunks moves each
// of them a handful of times. A chunk that is removed stays as a candidate of place 0, which is
// skipped, until the next merge. Not thread-safe.
#ifndef SATCHEL_CHUNKSTORE_CORE_LOCATION_TABLE_H_
#define SATCHEL_CHUNKSTORE_CORE_LOCATION_TABLE_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "chunkstore/core/chunk_ref.h"
#include "chunkstore/core/location.h"

namespace satchel {

class LocationTable {
 public:
  // As many chunks of one prefix are told apart here; LevelDB has to tell more of them, which
  // somebody made on purpose.
  static constexpr unsigned kMaxCandidates = 8;

  LocationTable();

  // What the table has of one chunk.
  struct Entry {
    uint32_t prefix;
    uint64_t place;
  };
  static Entry EntryOf(const ChunkRef& ref, const Location& at);

  // Before Find, in the order of the references; then Seal.
  void Load(const Entry& entry);
  void Seal();

  void Add(const ChunkRef& ref, const Location& at);

  // The places of chunks that may be `ref`: at most kMaxCandidates of them into `at`.
  unsigned Find(const ChunkRef& ref, Location* at) const;

  // `ref` is at `at` no more.
  void Remove(const ChunkRef& ref, const Location& at);

  // No chunk is in that pack any more.
  void RemovePack(uint32_t pack);

  size_t size() const { return size_ + used_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <typename T>
  using Array = std::unique_ptr<T[], Free>;

  static constexpr unsigned kDirectoryBits = 16;
  static constexpr size_t kMinSlots = size_t{1} << 12;
  static constexpr size_t kMinMerge = size_t{1} << 16;

  void Reserve(size_t size);
  void MakeDirectory();
  void Place(uint32_t prefix, uint64_t place);
  void Grow(size_t slots);
  void Merge();
  size_t Slot(uint32_t prefix) const;

  // Sorted by prefix. Grown by realloc, which moves pages instead of copying them.
  Array<uint32_t> prefixes_;
  Array<uint64_t> places_;
  size_t size_ = 0;
  size_t capacity_ = 0;
  std::vector<uint32_t> directory_;  // where the entries of an upper half begin

  // Added since the last merge: open addressing; a place of 0 is a free slot.
  std::vector<uint32_t> new_prefixes_;
  std::vector<uint64_t> new_places_;
  size_t used_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_LOCATION_TABLE_H_
