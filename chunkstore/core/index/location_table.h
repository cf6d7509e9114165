// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Where chunks may be: for each stored chunk the first 32 bits of its SHA-1 and its place, in
// memory, so that neither a block never seen before nor one that is there costs a LevelDB lookup.
// A candidate says "maybe": whoever asks compares the reference in the record's header. Two of 16
// million chunks share their 32 bits so rarely that one new block in 250 is compared in vain.
//
// 10 bytes a chunk: the chunks are sorted by prefix, a directory leads from its upper half to the
// few that a search has to look at, and of these only the lower half is kept. Additions go to a
// small hash table beside it, of 16 bytes a slot, which is merged into the sorted part when it is
// full; it grows with that part, but ever slower, so that adding n chunks moves each of them a
// handful of times and what is beside the 10 bytes stays little. A chunk that is removed stays as a
// candidate of a place in no pack, which is skipped, until the next merge. Not thread-safe.
#ifndef SATCHEL_CHUNKSTORE_CORE_INDEX_LOCATION_TABLE_H_
#define SATCHEL_CHUNKSTORE_CORE_INDEX_LOCATION_TABLE_H_

#include <cstdint>
#include <vector>

#include "chunkstore/core/format/chunk_ref.h"
#include "chunkstore/core/format/location.h"
#include "chunkstore/core/os/page_array.h"

namespace satchel {

class LocationTable {
 public:
  // As many chunks of one prefix are told apart here; LevelDB has to tell more of them, which
  // somebody made on purpose.
  static constexpr unsigned kMaxCandidates = 8;

  // What the table has of one chunk.
  struct Entry {
    uint32_t prefix;
    uint64_t place;
  };
  static Entry EntryOf(const ChunkRef& ref, const Location& at);

  // Into an empty table, in the order of the references; then Seal. The first few count as added:
  // a small store does without the sorted part, whose directory costs as much as a large one's.
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
  static constexpr size_t kUppers = size_t{1} << 16;
  static constexpr size_t kMinSlots = size_t{1} << 9;  // two pages
  static constexpr size_t kFew = size_t{1} << 11;
  static constexpr size_t kMinSorted = size_t{1} << 12;
  // How many additions are merged at least, and at most into a table that is not much larger.
  static constexpr size_t kMinMerge = size_t{1} << 16;
  static constexpr size_t kMaxMerge = size_t{3} << 17;

  void MakeDirectory();
  void Reserve(size_t size);
  void AddNew(uint32_t prefix, uint64_t place);
  void Place(uint32_t prefix, uint64_t place);
  void Grow(size_t slots);
  size_t MergeAt() const;
  void Merge();
  void DropRemoved();
  size_t SortNew();
  void MoveUp(size_t begin, size_t end, size_t to);
  size_t Slot(uint32_t prefix) const;

  // Sorted by prefix, of which this is the lower half.
  PageArray<uint16_t> lowers_;
  PageArray<uint64_t> places_;
  size_t size_ = 0;
  // Where the entries of an upper half begin. Empty before the first of them.
  std::vector<uint32_t> directory_;
  bool removed_ = false;  // some of them

  // Added since the last merge: open addressing; a place of 0 is a free slot.
  PageArray<Entry> new_;
  size_t used_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_INDEX_LOCATION_TABLE_H_
