// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/volume/ingest.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <utility>

#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/os/workers.h"
#include "chunkstore/core/volume/leaves.h"

namespace satchel {
namespace {

// The leaves of the jobs; those that a job replaces as a whole only if `all`.
std::vector<uint64_t> LeavesOf(const std::vector<LeafJob>& jobs, bool all) {
  std::vector<uint64_t> leaves;
  for (const LeafJob& job : jobs) {
    leaves.push_back(all || job.mask != ~uint64_t{0} ? job.leaf : kNoLeaf);
  }
  return leaves;
}

// A block that comes from the source.
struct Block {
  uint32_t job;
  uint32_t entry;  // in its leaf
};

// What a worker makes of its jobs.
struct Batch {
  uint64_t ticket = 0;
  std::vector<LeafJob> jobs;
  std::vector<Page> pages;         // one per job
  std::vector<ChunkRef> leaves;    // their references
  int level = 0;                   // of the records of blocks
  RecordBatch records;             // of blocks
  RecordBatch leaf_records;        // of leaves
  std::vector<BlockPlace> places;  // one per block, if the plan asks for them
  std::vector<uint32_t> placed;    // which of them the records are of
  uint64_t bytes = 0;              // read from the source
};

// What a worker needs while it makes a batch, kept from one to the next.
struct Desk {
  explicit Desk(Chunks* chunks) : leaves(chunks->reader(), BulkReader::CacheUse::kKeep) {}

  BulkReader leaves;
  std::vector<Block> blocks;
  std::vector<uint8_t> content;  // of the blocks, one behind the other
  std::vector<uint8_t> pages;    // encoded
  std::vector<ChunkRef> refs;
  std::vector<Location> at;
  std::unique_ptr<bool[]> found{new bool[kMaxBlocks]};
  std::vector<Page> hint;  // of the leaves that the blocks are compared with

  static constexpr size_t kMaxBlocks = kBatchBlocks + kPageFanout;
};

// Pages are stored apart from blocks, this many side by side, because they are read together: by
// the next checkpoint, and by whoever compares with this table or walks over it.
constexpr size_t kPagesTogether = 64;

class Ingest : private PageSink {
 public:
  Ingest(Chunks* chunks, const IngestPlan& plan)
      : chunks_(chunks), plan_(plan), workers_(plan.total), rewriter_(chunks, this, plan.start) {}

  Status Run(const ProgressFn& progress, TableRoot* root) {
    if (plan_.bulk) chunks_->BeginWriteBehind();
    SATCHEL_RETURN_IF_ERROR(workers_.Run([this] { return Work(); }, progress));
    SATCHEL_RETURN_IF_ERROR(rewriter_.Finish(root));
    SATCHEL_RETURN_IF_ERROR(chunks_->Append(std::move(pages_)));
    return {};
  }

 private:
  Status Work() {
    Desk desk(chunks_);
    desk.pages.resize(size_t{kBatchLeaves} * kBlockSize);
    for (;;) {
      const auto batch = std::make_shared<Batch>();
      SATCHEL_RETURN_IF_ERROR(Take(batch.get()));
      if (batch->jobs.empty() || !workers_.WaitForRoom(batch->ticket)) return {};
      SATCHEL_RETURN_IF_ERROR(ReadBlocks(batch.get(), &desk));
      SATCHEL_RETURN_IF_ERROR(StoreBlocks(batch.get(), &desk));
      SATCHEL_RETURN_IF_ERROR(StoreLeaves(batch.get(), &desk));
      const auto deliver = [this, batch] { return Deliver(batch.get()); };
      SATCHEL_RETURN_IF_ERROR(workers_.InOrder(batch->ticket, deliver));
      SATCHEL_RETURN_IF_ERROR(Write());
    }
  }

  // A checkpoint does not fail for what an import beside it could not write: it tries by itself.
  Status Write() {
    const Status status = chunks_->WriteBehind();
    return status.ok() || plan_.bulk ? status : chunks_->Write();
  }

  Status Take(Batch* batch) {
    const MutexLock lock(&mutex_);
    batch->ticket = next_ticket_++;
    return plan_.next(&batch->jobs);
  }

  // Reads and names the blocks of the batch, and the leaves that are changed or compared with.
  Status ReadBlocks(Batch* batch, Desk* desk) {
    uint8_t* const buffer = desk->pages.data();
    batch->pages.assign(batch->jobs.size(), Page{});
    if (plan_.rest != nullptr) {
      SATCHEL_RETURN_IF_ERROR(ReadLeaves(chunks_, *plan_.rest, LeavesOf(batch->jobs, /*all=*/false),
                                         &desk->leaves, buffer, batch->pages.data()));
    }
    if (plan_.hint != nullptr) {
      desk->hint.resize(batch->jobs.size());
      const Status status = ReadLeaves(chunks_, *plan_.hint, LeavesOf(batch->jobs, /*all=*/true),
                                       &desk->leaves, buffer, desk->hint.data());
      if (!status.ok() && !status.Is(Kind::kMissing)) return status;
      if (!status.ok()) desk->hint.assign(batch->jobs.size(), Page{});
    }
    desk->blocks.clear();
    for (uint32_t job = 0; job < batch->jobs.size(); ++job) {
      for (uint32_t i = 0; i < kPageFanout; ++i) {
        if (((batch->jobs[job].mask >> i) & 1) != 0) desk->blocks.push_back(Block{job, i});
      }
    }
    const size_t n = desk->blocks.size();
    assert(n <= Desk::kMaxBlocks);
    desk->content.resize(std::max(desk->content.size(), n * kBlockSize));
    desk->refs.resize(n);
    for (size_t i = 0; i < n;) {
      const uint64_t first = NumberOf(*batch, desk->blocks[i]);
      size_t end = i + 1;
      while (end < n && NumberOf(*batch, desk->blocks[end]) == first + (end - i)) ++end;
      SATCHEL_RETURN_IF_ERROR(plan_.source->Read(first, static_cast<uint32_t>(end - i),
                                                 &desk->content[i * kBlockSize]));
      i = end;
    }
    NameBlocks(desk->content.data(), n, desk->refs.data());
    for (size_t i = 0; i < n; ++i) {
      const Block& block = desk->blocks[i];
      batch->pages[block.job].refs[block.entry] = desk->refs[i];
    }
    batch->bytes = uint64_t{n} * kBlockSize;
    return {};
  }

  static uint64_t NumberOf(const Batch& batch, const Block& block) {
    return batch.jobs[block.job].leaf * kPageFanout + block.entry;
  }

  // Looks the blocks up, and makes the records of those that are not here.
  Status StoreBlocks(Batch* batch, Desk* desk) {
    std::vector<uint32_t> ask;  // which blocks
    SATCHEL_RETURN_IF_ERROR(NotInHint(desk, &ask));
    const size_t asked = ask.size();
    for (size_t k = 0; k < asked; ++k) desk->refs[k] = desk->refs[ask[k]];  // ask[k] >= k
    desk->at.resize(std::max(desk->at.size(), asked));
    SATCHEL_RETURN_IF_ERROR(
        chunks_->Locate(desk->refs.data(), asked, desk->at.data(), desk->found.get()));
    if (plan_.on_places) {
      for (const Block& block : desk->blocks) {
        batch->places.push_back(BlockPlace{NumberOf(*batch, block), Location{}});
      }
    }
    for (size_t k = 0; k < asked; ++k) {
      if (!desk->found[k]) {
        batch->placed.push_back(ask[k]);
        desk->refs[batch->placed.size() - 1] = desk->refs[k];
      } else if (plan_.on_places) {
        batch->places[ask[k]].at = desk->at[k];
      }
    }
    MakeRecords(batch, *desk);
    return {};
  }

  // Of the blocks that are placed, whose references come first.
  void MakeRecords(Batch* batch, const Desk& desk) {
    batch->level = plan_.level == 0 ? LevelBy(chunks_->Waiting()) : plan_.level;
    const size_t n = batch->placed.size();
    batch->records.bulk = plan_.bulk;
    batch->records.bytes = chunks_->TakeSpare();
    batch->records.bytes.reserve(n * kMaxRecordSize);
    for (size_t k = 0; k < n; ++k) {
      const uint8_t* const block = &desk.content[size_t{batch->placed[k]} * kBlockSize];
      batch->records.Add(desk.refs[k], block, batch->level);
    }
    chunks_->Fit(&batch->records.bytes);
  }

  // The blocks that are neither zero nor known to be here because the hint has them at that place.
  Status NotInHint(Desk* desk, std::vector<uint32_t>* ask) {
    const size_t n = desk->blocks.size();
    const bool hinted = plan_.hint != nullptr && chunks_->damaged() == 0;
    bool* const here = desk->found.get();
    if (hinted) SATCHEL_RETURN_IF_ERROR(chunks_->MaybeHere(desk->refs.data(), n, here));
    for (uint32_t i = 0; i < n; ++i) {
      const Block& block = desk->blocks[i];
      const ChunkRef& ref = desk->refs[i];
      if (ref.IsZero()) continue;
      if (hinted && here[i] && desk->hint[block.job].refs[block.entry] == ref) continue;
      ask->push_back(i);
    }
    return {};
  }

  // Names the leaves together, and adds those that are not here.
  Status StoreLeaves(Batch* batch, Desk* desk) {
    const size_t n = batch->pages.size();
    for (size_t i = 0; i < n; ++i) {
      uint8_t* const block = &desk->pages[i * kBlockSize];
      if (batch->pages[i].IsZero()) {
        std::memset(block, 0, kBlockSize);
      } else {
        EncodePage(batch->pages[i], 0, block);
      }
    }
    batch->leaves.resize(n);
    NameBlocks(desk->pages.data(), n, batch->leaves.data());
    desk->at.resize(std::max(desk->at.size(), n));
    SATCHEL_RETURN_IF_ERROR(
        chunks_->Locate(batch->leaves.data(), n, desk->at.data(), desk->found.get()));
    for (size_t i = 0; i < n; ++i) {
      if (desk->found[i] || batch->leaves[i].IsZero()) continue;
      batch->leaf_records.Add(batch->leaves[i], &desk->pages[i * kBlockSize], plan_.level);
    }
    return {};
  }

  // Called for one batch at a time, in the order of the tickets. Whoever called it writes.
  Status Deliver(Batch* batch) {
    std::vector<Location> at;
    Chunks::Added added;
    SATCHEL_RETURN_IF_ERROR(chunks_->Reserve(std::move(batch->records), &at, &added));
    if (plan_.stored != nullptr && added.chunks > 0) {
      Chunks::Added* const sum = &(*plan_.stored)[batch->level];
      *sum = {sum->chunks + added.chunks, sum->bytes + added.bytes};
    }
    if (plan_.on_places) {
      for (size_t k = 0; k < batch->placed.size(); ++k) {
        batch->places[batch->placed[k]].at = at[k];
      }
      plan_.on_places(batch->places);
    }
    for (size_t i = 0; i < batch->jobs.size(); ++i) {
      SATCHEL_RETURN_IF_ERROR(rewriter_.SetLeaf(batch->jobs[i].leaf, batch->leaves[i]));
    }
    workers_.Done(batch->bytes);
    pages_.Add(batch->leaf_records);
    if (pages_.items.size() < kPagesTogether) return {};
    SATCHEL_RETURN_IF_ERROR(chunks_->Reserve(std::move(pages_), &at));
    pages_.Clear();
    return {};
  }

  Status PutPage(const Page& page, unsigned level, ChunkRef* ref) override {
    return chunks_->StorePage(page, level, &pages_, ref);
  }

  Chunks* const chunks_;
  const IngestPlan& plan_;
  Workers workers_;

  Mutex mutex_;  // also one call of plan_.next at a time
  uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;

  // Used by whoever has the turn.
  TableRewriter rewriter_;
  RecordBatch pages_;  // that have no place yet
};

}  // namespace

Status RunIngest(Chunks* chunks, const IngestPlan& plan, const ProgressFn& progress,
                 TableRoot* root) {
  return Ingest(chunks, plan).Run(progress, root);
}

}  // namespace satchel
