// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of a volume: a tree of pages, each of them a chunk. Described in docs/formats/table.md.
//
//   page    := header (16)  64 chunk references of 52 bytes  zero (752)
//   header  := magic "SATT" (4)  version u8  level u8  zero (10)
//
// An entry of a level 0 page names the chunk of one block, an entry of a level n page names a page
// of level n - 1. The zero reference stands for 64^level zero blocks, so a page of zero references
// only is never stored. A volume of n blocks has a root page of RootLevel(n); entries past the end
// are zero. Equal content therefore has an equal root.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_TABLE_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "chunkstore/core/format/chunk_ref.h"
#include "chunkstore/core/format/ref_map.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

constexpr uint32_t kPageMagic = 0x54544153;  // "SATT"
constexpr uint8_t kPageVersion = 1;
constexpr uint32_t kPageHeaderSize = 16;
constexpr uint32_t kPageFanout = 64;
constexpr unsigned kPageFanoutBits = 6;

// Bytes that a volume may have: what 64^7 blocks hold is far above it.
constexpr uint64_t kMaxVolumeSize = uint64_t{1} << 52;

struct TableRoot {
  ChunkRef ref{};     // of the root page; zero if all of the volume is zero
  uint64_t size = 0;  // bytes of the volume; the last block is padded with zeros

  uint64_t blocks() const { return size / kBlockSize + (size % kBlockSize != 0); }
  uint64_t leaves() const { return (blocks() + kPageFanout - 1) / kPageFanout; }
};

struct Page {
  ChunkRef refs[kPageFanout];

  bool IsZero() const;
};

// Level of the root page of a volume of `blocks` blocks.
unsigned RootLevel(uint64_t blocks);

// Blocks under one entry of a page of `level`.
constexpr uint64_t BlocksPerEntry(unsigned level) {
  return uint64_t{1} << (kPageFanoutBits * level);
}

void EncodePage(const Page& page, unsigned level, uint8_t* block);

// Whether the 4096 bytes begin as a page of any level does.
bool IsPage(const uint8_t* block);

// kInvalid, naming `ref`, unless `block` is a page of `level`.
Status DecodePage(const ChunkRef& ref, const uint8_t* block, unsigned level, Page* page);

// Where pages come from. Thread-safe. kMissing if a page is not here.
class PageSource {
 public:
  virtual ~PageSource() = default;
  virtual Status GetPage(const ChunkRef& ref, unsigned level,
                         std::shared_ptr<const Page>* page) = 0;
};

// What a walk meets, in the order of the table. An error from a visit ends the walk.
struct TableVisitor {
  // Consecutive blocks, at most 64, none of them outside of the asked range.
  std::function<Status(uint64_t first, const ChunkRef* refs, uint32_t count)> on_blocks;

  // Consecutive zero blocks. May be empty.
  std::function<Status(uint64_t first, uint64_t count)> on_zero;

  // A page, before what is under it. *descend = false skips that. May be empty.
  std::function<Status(const ChunkRef& ref, bool* descend)> on_page;

  // A page that is missing; without it the walk ends with kMissing. May be empty.
  std::function<Status(const ChunkRef& ref)> on_missing;
};

// Visits the blocks [first, first + count) of a volume, cut to its end.
Status WalkTable(PageSource* pages, const TableRoot& root, uint64_t first, uint64_t count,
                 const TableVisitor& visitor);

// Adds the references of all pages and chunks under `roots` in the order of the tables, a page
// before what is under it. A page that is not here is kMissing, or, if `partial`, has nothing
// under it.
Status CollectReachable(PageSource* pages, const std::vector<TableRoot>& roots, bool partial,
                        RefSet* refs);

// Says of `n` chunks, at most 64, whether they are here. What it says of the zero reference does
// not count.
using HasChunks = std::function<Status(const ChunkRef* refs, size_t n, bool* has)>;

// The references under `roots` that are not here, none twice. Of a missing page, only the page.
Status CollectMissing(PageSource* pages, const std::vector<TableRoot>& roots, const HasChunks& has,
                      std::vector<ChunkRef>* refs);

// kUsage for a size above kMaxVolumeSize.
Status CheckRoot(const TableRoot& root);

// Stores pages and gives back their references; zero pages become the zero reference.
class PageSink {
 public:
  virtual ~PageSink() = default;
  virtual Status PutPage(const Page& page, unsigned level, ChunkRef* ref) = 0;
};

// Writes a table that differs from an old one in some leaf pages, given in ascending order. Only
// the pages on the way to those are read and written. Memory: one page per level.
class TableRewriter {
 public:
  // `old_root` with a zero reference stands for a volume of zeros.
  TableRewriter(PageSource* pages, PageSink* sink, const TableRoot& old_root);

  // `leaf` is the reference of the level 0 page of blocks [64 * index, 64 * index + 64).
  Status SetLeaf(uint64_t index, const ChunkRef& leaf);

  // Gives the root of the new table. To be called once, last.
  Status Finish(TableRoot* root);

 private:
  struct Open {
    bool open = false;
    uint64_t index = 0;  // of this page among those of its level
    Page page;
  };

  Status OpenPage(unsigned level, uint64_t index);
  Status ClosePage(unsigned level);
  void SetEntry(unsigned level, uint64_t index, const ChunkRef& ref);

  PageSource* const pages_;
  PageSink* const sink_;
  TableRoot root_;
  const unsigned top_;      // level of the root page
  std::vector<Open> open_;  // by level; level 0 is unused
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_TABLE_H_
