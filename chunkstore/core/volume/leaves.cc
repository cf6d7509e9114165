// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/volume/leaves.h"

#include <memory>

#include "chunkstore/core/format/chunk_status.h"

namespace satchel {
namespace {

// Pages read by a certain reader.
class PagesBy final : public PageSource {
 public:
  PagesBy(Chunks* chunks, BulkReader* reader) : chunks_(chunks), reader_(reader) {}

  Status GetPage(const ChunkRef& ref, unsigned level, std::shared_ptr<const Page>* page) override {
    return chunks_->GetPageBy(reader_, ref, level, page);
  }

 private:
  Chunks* const chunks_;
  BulkReader* const reader_;
};

// Finds the reference of one leaf; zero where the table is zero.
Status FindLeaf(PageSource* pages, const TableRoot& root, uint64_t leaf, ChunkRef* ref) {
  *ref = kZeroRef;
  unsigned above = RootLevel(root.blocks());  // pages that are met before the leaf
  TableVisitor visitor;
  visitor.on_page = [&](const ChunkRef& page, bool* descend) {
    *descend = above > 0;
    if (above-- == 0) *ref = page;
    return Status();
  };
  return WalkTable(pages, root, leaf * kPageFanout, 1, visitor);
}

}  // namespace

Status ReadLeaves(Chunks* chunks, const TableRoot& root, const std::vector<uint64_t>& leaves,
                  BulkReader* reader, uint8_t* buffer, Page* pages) {
  PagesBy source(chunks, reader);
  std::vector<ChunkRef> refs(leaves.size(), kZeroRef);
  for (size_t i = 0; i < leaves.size(); ++i) {
    pages[i] = Page{};
    if (leaves[i] >= root.leaves()) continue;
    SATCHEL_RETURN_IF_ERROR(FindLeaf(&source, root, leaves[i], &refs[i]));
  }
  Status status = chunks->GetTogether(refs.data(), refs.size(), reader, buffer);
  if (status.Is(Kind::kInvalid)) status = MissingChunk(ChunkOf(status), status.why());
  SATCHEL_RETURN_IF_ERROR(status);
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (refs[i].IsZero()) continue;
    SATCHEL_RETURN_IF_ERROR(DecodePage(refs[i], buffer + i * kBlockSize, 0, &pages[i]));
  }
  return {};
}

}  // namespace satchel
