// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/ingest.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "chunkstore/core/hash.h"
#include "chunkstore/core/workers.h"

namespace satchel {
namespace {

// The references of one leaf of a table; zeros where the table is zero or ends.
Status ReadLeaf(Chunks* chunks, const TableRoot& root, uint64_t leaf, ChunkRef* refs) {
  std::fill_n(refs, kPageFanout, kZeroRef);
  const uint64_t base = leaf * kPageFanout;
  TableVisitor visitor;
  visitor.on_zero = [](uint64_t, uint64_t) { return Status(); };
  visitor.on_blocks = [&](uint64_t first, const ChunkRef* found, uint32_t count) {
    std::copy_n(found, count, refs + (first - base));
    return Status();
  };
  return WalkTable(chunks, root, base, kPageFanout, visitor);
}

// What a worker makes of its jobs.
struct Batch {
  uint64_t ticket = 0;
  std::vector<LeafJob> jobs;
  std::vector<ChunkRef> leaves;  // one per job
  RecordBatch records;
  uint64_t bytes = 0;  // read from the source
};

class Ingest : private PageSink {
 public:
  Ingest(Chunks* chunks, const IngestPlan& plan)
      : chunks_(chunks), plan_(plan), workers_(plan.total), rewriter_(chunks, this, plan.start) {}

  Status Run(const ProgressFn& progress, TableRoot* root) {
    SATCHEL_RETURN_IF_ERROR(workers_.Run([this] { return Work(); }, progress));
    SATCHEL_RETURN_IF_ERROR(rewriter_.Finish(root));
    SATCHEL_RETURN_IF_ERROR(chunks_->Append(pages_));
    return {};
  }

 private:
  Status Work() {
    std::vector<uint8_t> blocks(kPageFanout * kBlockSize);
    for (;;) {
      const auto batch = std::make_shared<Batch>();
      SATCHEL_RETURN_IF_ERROR(Take(batch.get()));
      if (batch->jobs.empty() || !workers_.WaitForRoom(batch->ticket)) return {};
      for (const LeafJob& job : batch->jobs) {
        SATCHEL_RETURN_IF_ERROR(MakeLeaf(job, blocks.data(), batch.get()));
      }
      const auto deliver = [this, batch] { return Deliver(*batch); };
      SATCHEL_RETURN_IF_ERROR(workers_.InOrder(batch->ticket, deliver));
    }
  }

  Status Take(Batch* batch) {
    const std::lock_guard lock(mutex_);
    batch->ticket = next_ticket_++;
    return plan_.next(&batch->jobs);
  }

  Status MakeLeaf(const LeafJob& job, uint8_t* blocks, Batch* batch) {
    Page page{};
    ChunkRef hint[kPageFanout];
    if (plan_.rest != nullptr && job.mask != ~uint64_t{0}) {
      SATCHEL_RETURN_IF_ERROR(ReadLeaf(chunks_, *plan_.rest, job.leaf, page.refs));
    }
    if (plan_.hint != nullptr) {
      SATCHEL_RETURN_IF_ERROR(ReadLeaf(chunks_, *plan_.hint, job.leaf, hint));
    }
    SATCHEL_RETURN_IF_ERROR(ReadMasked(job, blocks, &page, batch));
    SATCHEL_RETURN_IF_ERROR(
        StoreBlocks(job, blocks, plan_.hint != nullptr ? hint : nullptr, page, batch));
    ChunkRef leaf;
    SATCHEL_RETURN_IF_ERROR(chunks_->StorePage(page, 0, &batch->records, &leaf));
    batch->leaves.push_back(leaf);
    return {};
  }

  // Reads the runs of set bits of the mask, each to its own place in `blocks`, and names them.
  Status ReadMasked(const LeafJob& job, uint8_t* blocks, Page* page, Batch* batch) {
    for (uint32_t i = 0; i < kPageFanout;) {
      uint32_t end = i;
      while (end < kPageFanout && ((job.mask >> end) & 1) != 0) ++end;
      if (end > i) {
        SATCHEL_RETURN_IF_ERROR(plan_.source->Read(job.leaf * kPageFanout + i, end - i,
                                                   blocks + size_t{i} * kBlockSize));
        NameBlocks(blocks + size_t{i} * kBlockSize, end - i, page->refs + i);
        batch->bytes += uint64_t{end - i} * kBlockSize;
      }
      i = end + 1;
    }
    return {};
  }

  Status StoreBlocks(const LeafJob& job, const uint8_t* blocks, const ChunkRef* hint,
                     const Page& page, Batch* batch) {
    bool same[kPageFanout] = {};
    if (hint != nullptr && chunks_->damaged() == 0) {
      SATCHEL_RETURN_IF_ERROR(chunks_->MaybeHere(hint, kPageFanout, same));
    }
    ChunkRef ask[kPageFanout];
    uint32_t place[kPageFanout];
    uint32_t asked = 0;
    for (uint32_t i = 0; i < kPageFanout; ++i) {
      if (((job.mask >> i) & 1) == 0) continue;
      const ChunkRef& ref = page.refs[i];
      if (ref.IsZero() || (same[i] && ref == hint[i])) continue;
      ask[asked] = ref;
      place[asked++] = i;
    }
    Location at[kPageFanout];
    bool found[kPageFanout];
    SATCHEL_RETURN_IF_ERROR(chunks_->Locate(ask, asked, at, found));
    for (uint32_t k = 0; k < asked; ++k) {
      if (found[k]) continue;
      batch->records.Add(ask[k], blocks + size_t{place[k]} * kBlockSize, chunks_->options().level);
    }
    return {};
  }

  // Called for one batch at a time, in the order of the tickets.
  Status Deliver(const Batch& batch) {
    SATCHEL_RETURN_IF_ERROR(chunks_->Append(batch.records));
    for (size_t i = 0; i < batch.jobs.size(); ++i) {
      SATCHEL_RETURN_IF_ERROR(rewriter_.SetLeaf(batch.jobs[i].leaf, batch.leaves[i]));
    }
    workers_.Done(batch.bytes);
    if (pages_.items.empty()) return {};
    SATCHEL_RETURN_IF_ERROR(chunks_->Append(pages_));
    pages_.Clear();
    return {};
  }

  Status PutPage(const Page& page, unsigned level, ChunkRef* ref) override {
    return chunks_->StorePage(page, level, &pages_, ref);
  }

  Chunks* const chunks_;
  const IngestPlan& plan_;
  Workers workers_;

  std::mutex mutex_;  // guards plan_.next and next_ticket_
  uint64_t next_ticket_ = 0;

  // Used by whoever has the turn.
  TableRewriter rewriter_;
  RecordBatch pages_;  // inner pages that wait to be appended
};

}  // namespace

Status RunIngest(Chunks* chunks, const IngestPlan& plan, const ProgressFn& progress,
                 TableRoot* root) {
  return Ingest(chunks, plan).Run(progress, root);
}

}  // namespace satchel
