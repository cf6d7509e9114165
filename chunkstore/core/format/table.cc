// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/table.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "chunkstore/core/format/chunk_status.h"

namespace satchel {
namespace {

class Walk {
 public:
  Walk(PageSource* pages, const TableVisitor& visitor, uint64_t first, uint64_t end)
      : pages_(pages), visitor_(visitor), first_(first), end_(end) {}

  // Visits what of the range, which is something, is under the page `ref` of `level`, whose first
  // block is `base`.
  Status Under(const ChunkRef& ref, unsigned level, uint64_t base) {
    if (ref.IsZero()) return Zero(base, BlocksPerEntry(level + 1));
    bool descend = true;
    if (visitor_.on_page) SATCHEL_RETURN_IF_ERROR(visitor_.on_page(ref, &descend));
    if (!descend) return {};
    std::shared_ptr<const Page> page;
    Status status = pages_->GetPage(ref, level, &page);
    if (status.Is(Kind::kMissing) && visitor_.on_missing) return visitor_.on_missing(ref);
    SATCHEL_RETURN_IF_ERROR(status);
    return level == 0 ? Blocks(*page, base) : Entries(*page, level, base);
  }

 private:
  Status Zero(uint64_t base, uint64_t count) {
    const uint64_t from = std::max(base, first_);
    const uint64_t to = std::min(base + count, end_);
    return visitor_.on_zero ? visitor_.on_zero(from, to - from) : Status();
  }

  Status Blocks(const Page& page, uint64_t base) {
    const uint64_t from = std::max(base, first_);
    const uint64_t to = std::min(base + kPageFanout, end_);
    return visitor_.on_blocks(from, page.refs + (from - base), static_cast<uint32_t>(to - from));
  }

  Status Entries(const Page& page, unsigned level, uint64_t base) {
    const uint64_t span = BlocksPerEntry(level);
    for (uint32_t i = 0; i < kPageFanout; ++i) {
      const uint64_t start = base + i * span;
      if (start >= end_ || start + span <= first_) continue;
      SATCHEL_RETURN_IF_ERROR(Under(page.refs[i], level - 1, start));
    }
    return {};
  }

  PageSource* const pages_;
  const TableVisitor& visitor_;
  const uint64_t first_;
  const uint64_t end_;
};

// Visits the tables of `roots`, and what is under a page once. `pages_met` gets all pages.
Status WalkOnce(PageSource* pages, const std::vector<TableRoot>& roots, TableVisitor visitor,
                RefSet* pages_met) {
  visitor.on_page = [pages_met](const ChunkRef& ref, bool* descend) {
    *descend = pages_met->Insert(ref, {}).second;
    return Status();
  };
  for (const TableRoot& root : roots) {
    SATCHEL_RETURN_IF_ERROR(WalkTable(pages, root, 0, root.blocks(), visitor));
  }
  return {};
}

}  // namespace

bool Page::IsZero() const {
  return std::all_of(refs, refs + kPageFanout, [](const ChunkRef& ref) { return ref.IsZero(); });
}

unsigned RootLevel(uint64_t blocks) {
  unsigned level = 0;
  while (BlocksPerEntry(level + 1) < blocks) ++level;
  return level;
}

void EncodePage(const Page& page, unsigned level, uint8_t* block) {
  std::memset(block, 0, kBlockSize);
  std::memcpy(block, &kPageMagic, sizeof kPageMagic);
  block[4] = kPageVersion;
  block[5] = static_cast<uint8_t>(level);
  std::memcpy(block + kPageHeaderSize, page.refs, sizeof page.refs);
}

bool IsPage(const uint8_t* block) {
  return std::memcmp(block, &kPageMagic, sizeof kPageMagic) == 0 && block[4] == kPageVersion;
}

Status DecodePage(const ChunkRef& ref, const uint8_t* block, unsigned level, Page* page) {
  if (!IsPage(block)) return InvalidChunk(ref, "it is not a table page");
  if (block[5] != level) return InvalidChunk(ref, "it is a table page of another level");
  std::memcpy(page->refs, block + kPageHeaderSize, sizeof page->refs);
  return {};
}

Status CheckRoot(const TableRoot& root) {
  if (root.size <= kMaxVolumeSize) return {};
  return Status::Make(Kind::kUsage, "a table root of " + std::to_string(root.size) + " bytes",
                      "a volume has at most 2^52 bytes");
}

Status WalkTable(PageSource* pages, const TableRoot& root, uint64_t first, uint64_t count,
                 const TableVisitor& visitor) {
  SATCHEL_RETURN_IF_ERROR(CheckRoot(root));
  const uint64_t blocks = root.blocks();
  if (first >= blocks || count == 0) return {};
  const uint64_t end = first + std::min(count, blocks - first);
  return Walk(pages, visitor, first, end).Under(root.ref, RootLevel(blocks), 0);
}

Status CollectReachable(PageSource* pages, const std::vector<TableRoot>& roots, bool partial,
                        RefSet* refs) {
  TableVisitor visitor;
  if (partial) visitor.on_missing = [](const ChunkRef&) { return Status(); };
  visitor.on_blocks = [&](uint64_t, const ChunkRef* found, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      if (!found[i].IsZero()) refs->Insert(found[i], {});
    }
    return Status();
  };
  return WalkOnce(pages, roots, std::move(visitor), refs);
}

Status CollectMissing(PageSource* pages, const std::vector<TableRoot>& roots, const HasChunks& has,
                      std::vector<ChunkRef>* refs) {
  RefSet missing;
  TableVisitor visitor;
  visitor.on_missing = [&](const ChunkRef& ref) {
    missing.Insert(ref, {});
    return Status();
  };
  visitor.on_blocks = [&](uint64_t, const ChunkRef* found, uint32_t count) {
    bool here[kPageFanout];
    SATCHEL_RETURN_IF_ERROR(has(found, count, here));
    for (uint32_t i = 0; i < count; ++i) {
      if (!here[i] && !found[i].IsZero()) missing.Insert(found[i], {});
    }
    return Status();
  };
  RefSet pages_met;
  SATCHEL_RETURN_IF_ERROR(WalkOnce(pages, roots, std::move(visitor), &pages_met));
  refs->clear();
  for (const auto& entry : missing.entries()) refs->push_back(entry.ref);
  return {};
}

TableRewriter::TableRewriter(PageSource* pages, PageSink* sink, const TableRoot& old_root)
    : pages_(pages),
      sink_(sink),
      root_(old_root),
      top_(RootLevel(old_root.blocks())),
      open_(top_ + 1) {}

Status TableRewriter::SetLeaf(uint64_t index, const ChunkRef& leaf) {
  assert(index < root_.leaves());
  if (top_ == 0) {
    root_.ref = leaf;
    return {};
  }
  SATCHEL_RETURN_IF_ERROR(OpenPage(1, index / kPageFanout));
  SetEntry(1, index, leaf);
  return {};
}

Status TableRewriter::Finish(TableRoot* root) {
  for (unsigned level = 1; level <= top_; ++level) SATCHEL_RETURN_IF_ERROR(ClosePage(level));
  *root = root_;
  return {};
}

// Afterwards the page is open, and so is every page above it.
Status TableRewriter::OpenPage(unsigned level, uint64_t index) {
  Open& slot = open_[level];
  if (slot.open && slot.index == index) return {};
  SATCHEL_RETURN_IF_ERROR(ClosePage(level));
  ChunkRef old = root_.ref;
  if (level < top_) {
    SATCHEL_RETURN_IF_ERROR(OpenPage(level + 1, index / kPageFanout));
    old = open_[level + 1].page.refs[index % kPageFanout];
  }
  if (old.IsZero()) {
    slot.page = Page{};
  } else {
    std::shared_ptr<const Page> page;
    SATCHEL_RETURN_IF_ERROR(pages_->GetPage(old, level, &page));
    slot.page = *page;
  }
  slot.open = true;
  slot.index = index;
  return {};
}

Status TableRewriter::ClosePage(unsigned level) {
  Open& slot = open_[level];
  if (!slot.open) return {};
  ChunkRef ref;
  SATCHEL_RETURN_IF_ERROR(sink_->PutPage(slot.page, level, &ref));
  if (level == top_) {
    root_.ref = ref;
  } else {
    SetEntry(level + 1, slot.index, ref);
  }
  return {};
}

void TableRewriter::SetEntry(unsigned level, uint64_t index, const ChunkRef& ref) {
  assert(open_[level].open && open_[level].index == index / kPageFanout);
  open_[level].page.refs[index % kPageFanout] = ref;
}

}  // namespace satchel
