// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/volume/volume.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "chunkstore/core/format/chunk_status.h"
#include "chunkstore/core/format/ref_map.h"
#include "chunkstore/core/os/workers.h"
#include "chunkstore/core/volume/ingest.h"
#include "chunkstore/core/volume/leaves.h"

namespace satchel {
namespace {

constexpr uint64_t kLeafBytes = uint64_t{kPageFanout} * kBlockSize;

class FileSource final : public BlockSource {
 public:
  // `whole`: a read that ends before `size` is an error; else the rest is zero.
  FileSource(File* file, uint64_t size, bool whole) : file_(file), size_(size), whole_(whole) {}

  uint64_t size() const override { return size_; }

  Status Read(uint64_t first, uint32_t count, uint8_t* out) override {
    const uint64_t offset = first * kBlockSize;
    const size_t n = size_t{count} * kBlockSize;
    const size_t want = static_cast<size_t>(std::min<uint64_t>(n, size_ - offset));
    size_t got = 0;
    SATCHEL_RETURN_IF_ERROR(file_->ReadAt(offset, want, out, &got));
    if (got < want && whole_) {
      return Status::Make(Kind::kIo, "cannot read all of a file", "it became shorter meanwhile");
    }
    std::memset(out + got, 0, n - got);
    return {};
  }

  Status NextData(uint64_t first, uint64_t* begin, uint64_t* end) override {
    SATCHEL_RETURN_IF_ERROR(file_->NextData(first * kBlockSize, begin, end));
    const uint64_t stop = std::min(*end, size_);
    const bool none = *begin >= stop;
    *end = (stop + kBlockSize - 1) / kBlockSize;
    *begin = none ? *end : *begin / kBlockSize;
    return {};
  }

 private:
  File* const file_;
  const uint64_t size_;
  const bool whole_;
};

class MemoryBlocks final : public BlockSource {
 public:
  MemoryBlocks(const uint8_t* data, size_t n) : data_(data), size_(n) {}

  uint64_t size() const override { return size_; }

  Status Read(uint64_t first, uint32_t count, uint8_t* out) override {
    const size_t offset = first * kBlockSize;
    const size_t n = size_t{count} * kBlockSize;
    const size_t have = std::min(n, size_ - offset);
    std::memcpy(out, data_ + offset, have);
    std::memset(out + have, 0, n - have);
    return {};
  }

  Status NextData(uint64_t first, uint64_t* begin, uint64_t* end) override {
    *end = (size_ + kBlockSize - 1) / kBlockSize;
    *begin = std::min(first, *end);
    return {};
  }

 private:
  const uint8_t* const data_;
  const size_t size_;
};

struct LeafRange {
  uint64_t begin;
  uint64_t end;
};

// The leaves that may hold data, in order.
Status FindLeaves(BlockSource* source, uint64_t leaves, std::vector<LeafRange>* ranges) {
  uint64_t block = 0;
  for (;;) {
    uint64_t begin = 0;
    uint64_t end = 0;
    SATCHEL_RETURN_IF_ERROR(source->NextData(block, &begin, &end));
    if (begin >= end) return {};
    const LeafRange range{begin / kPageFanout,
                          std::min(leaves, (end + kPageFanout - 1) / kPageFanout)};
    if (!ranges->empty() && range.begin <= ranges->back().end) {
      ranges->back().end = std::max(ranges->back().end, range.end);
    } else {
      ranges->push_back(range);
    }
    block = std::max(ranges->back().end * kPageFanout, block + 1);
  }
}

// Hands out whole leaves of `ranges`.
class WholeLeaves {
 public:
  explicit WholeLeaves(std::vector<LeafRange> ranges) : ranges_(std::move(ranges)) {}

  uint64_t bytes() const {
    uint64_t leaves = 0;
    for (const LeafRange& range : ranges_) leaves += range.end - range.begin;
    return leaves * kLeafBytes;
  }

  Status Next(std::vector<LeafJob>* jobs) {
    while (at_ < ranges_.size() && jobs->size() < kBatchBlocks / kPageFanout) {
      LeafRange& range = ranges_[at_];
      if (range.begin < range.end) jobs->push_back(LeafJob{range.begin++, ~uint64_t{0}});
      if (range.begin >= range.end) ++at_;
    }
    return {};
  }

 private:
  std::vector<LeafRange> ranges_;
  size_t at_ = 0;
};

// Hands out the dirty blocks of a map.
class DirtyLeaves {
 public:
  explicit DirtyLeaves(const BlockMap& map) : map_(map) {}

  Status Next(std::vector<LeafJob>* jobs) {
    uint32_t blocks = 0;
    while (leaf_ * kPageFanout < map_.blocks() && blocks < kBatchBlocks &&
           jobs->size() < kBatchLeaves) {
      const LeafJob job{leaf_, Mask(leaf_)};
      ++leaf_;
      if (job.mask == 0) continue;
      jobs->push_back(job);
      blocks += static_cast<uint32_t>(__builtin_popcountll(job.mask));
    }
    return {};
  }

 private:
  uint64_t Mask(uint64_t leaf) const {
    uint64_t mask = 0;
    const uint64_t base = leaf * kPageFanout;
    const uint64_t count = std::min<uint64_t>(kPageFanout, map_.blocks() - base);
    for (uint64_t i = 0; i < count; ++i) {
      if (map_.Load(base + i).state == BlockState::kDirty) mask |= uint64_t{1} << i;
    }
    return mask;
  }

  const BlockMap& map_;
  uint64_t leaf_ = 0;
};

Status CheckMap(const TableRoot& root, const BlockMap& map) {
  SATCHEL_RETURN_IF_ERROR(CheckRoot(root));
  if (map.blocks() == root.blocks()) return {};
  return Status::Make(
      Kind::kUsage, "a block map does not fit the volume",
      std::to_string(map.blocks()) + " blocks against " + std::to_string(root.blocks()));
}

BlockEntry PackedEntry(const Location& at) { return BlockEntry{BlockState::kPacked, at}; }

// One call of ResolveBlocks.
class Resolution {
 public:
  Resolution(Chunks* chunks, BlockMap* map) : chunks_(chunks), map_(map) {}

  Status Run(const TableRoot& root, uint64_t first, uint64_t count,
             std::vector<ChunkRef>* missing) {
    TableVisitor visitor;
    visitor.on_zero = [this](uint64_t from, uint64_t n) { return Zero(from, n); };
    visitor.on_blocks = [this](uint64_t from, const ChunkRef* refs, uint32_t n) {
      return Blocks(from, refs, n);
    };
    visitor.on_missing = [this](const ChunkRef& ref) {
      pages_.Insert(ref, {});
      return Status();
    };
    SATCHEL_RETURN_IF_ERROR(WalkTable(chunks_, root, first, count, visitor));
    missing->clear();
    const RefSet& wanted = pages_.size() > 0 ? pages_ : blocks_;
    for (const auto& entry : wanted.entries()) missing->push_back(entry.ref);
    return {};
  }

 private:
  bool Absent(uint64_t block) const { return map_->Load(block).state == BlockState::kAbsent; }

  Status Zero(uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i) {
      if (Absent(i)) map_->Replace(i, BlockState::kAbsent, kZeroEntry);
    }
    return {};
  }

  Status Blocks(uint64_t first, const ChunkRef* refs, uint32_t count) {
    ChunkRef ask[kPageFanout];
    uint64_t block[kPageFanout];
    uint32_t asked = 0;
    for (uint32_t i = 0; i < count; ++i) {
      if (!Absent(first + i)) continue;
      if (refs[i].IsZero()) {
        map_->Replace(first + i, BlockState::kAbsent, kZeroEntry);
        continue;
      }
      ask[asked] = refs[i];
      block[asked++] = first + i;
    }
    Location at[kPageFanout];
    bool found[kPageFanout];
    SATCHEL_RETURN_IF_ERROR(chunks_->Locate(ask, asked, at, found));
    // The plugin reads the pack as soon as it sees the entry.
    SATCHEL_RETURN_IF_ERROR(chunks_->Flush());
    for (uint32_t k = 0; k < asked; ++k) {
      if (found[k]) {
        map_->Replace(block[k], BlockState::kAbsent, PackedEntry(at[k]));
      } else {
        blocks_.Insert(ask[k], {});
      }
    }
    return {};
  }

  Chunks* const chunks_;
  BlockMap* const map_;
  RefSet pages_;
  RefSet blocks_;
};

// Reads the blocks of a volume and writes those that are not zero, if there is where to.
class Exporter {
 public:
  // `out` may be null.
  Exporter(Chunks* chunks, const TableRoot& root, File* out)
      : chunks_(chunks), root_(root), out_(out), workers_(root.size, kReaders) {}

  Status Run(const ProgressFn& progress) {
    return workers_.Run([this] { return Work(); }, progress);
  }

 private:
  static constexpr uint64_t kGroup = 512;  // blocks

  // For each processor: while one waits for the disk, another decompresses.
  static constexpr unsigned kReaders = 2;

  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };

  // A group that is read, or on its way to the file.
  struct Group {
    std::unique_ptr<uint8_t, Free> blocks;
    std::unique_ptr<AsyncWriter> writer;  // ends before its blocks do

    Status Make(File* out) {
      // Aligned to blocks, so that it can be written from where it is.
      blocks.reset(static_cast<uint8_t*>(std::aligned_alloc(kBlockSize, kGroup * kBlockSize)));
      if (blocks == nullptr) return Status::FromErrno("cannot export", ENOMEM);
      if (out != nullptr) writer = out->MakeAsyncWriter();
      return {};
    }
    Status Wait() const { return writer == nullptr ? Status() : writer->Wait(); }
  };

  // One group is written while the next one is read.
  Status Work() {
    std::array<Group, 2> groups;
    for (Group& group : groups) SATCHEL_RETURN_IF_ERROR(group.Make(out_));
    BulkReader reader(chunks_->reader(), BulkReader::CacheUse::kOnce);
    std::vector<ChunkRef> wanted;
    std::vector<Page> leaves(kGroup / kPageFanout);
    for (size_t turn = 0; !workers_.stopped(); ++turn) {
      const uint64_t first = next_.fetch_add(kGroup);
      if (first >= root_.blocks()) break;
      const Group& group = groups[turn % groups.size()];
      uint8_t* const blocks = group.blocks.get();
      SATCHEL_RETURN_IF_ERROR(group.Wait());
      SATCHEL_RETURN_IF_ERROR(Collect(first, &reader, blocks, &leaves, &wanted));
      const auto zero = [](const ChunkRef& ref) { return ref.IsZero(); };
      if (!std::all_of(wanted.begin(), wanted.end(), zero)) {
        SATCHEL_RETURN_IF_ERROR(chunks_->GetTogether(wanted.data(), kGroup, &reader, blocks));
        SATCHEL_RETURN_IF_ERROR(Write(first, wanted, group));
      }
      workers_.Done(std::min(kGroup * kBlockSize, root_.size - first * kBlockSize));
    }
    for (const Group& group : groups) SATCHEL_RETURN_IF_ERROR(group.Wait());
    return {};
  }

  // The references of the group's blocks.
  Status Collect(uint64_t first, BulkReader* reader, uint8_t* buffer, std::vector<Page>* leaves,
                 std::vector<ChunkRef>* wanted) {
    std::vector<uint64_t> numbers(leaves->size());
    std::iota(numbers.begin(), numbers.end(), first / kPageFanout);
    SATCHEL_RETURN_IF_ERROR(ReadLeaves(chunks_, root_, numbers, reader, buffer, leaves->data()));
    wanted->clear();
    for (const Page& leaf : *leaves) {
      wanted->insert(wanted->end(), std::begin(leaf.refs), std::end(leaf.refs));
    }
    return {};
  }

  Status Write(uint64_t first, const std::vector<ChunkRef>& refs, const Group& group) const {
    if (group.writer == nullptr) return {};
    for (uint64_t i = 0; i < kGroup;) {
      uint64_t end = i;
      while (end < kGroup && !refs[end].IsZero()) ++end;
      if (end > i) {
        const uint64_t offset = (first + i) * kBlockSize;
        const uint64_t n = std::min((end - i) * kBlockSize, root_.size - offset);
        const uint8_t* const from = group.blocks.get() + i * kBlockSize;
        SATCHEL_RETURN_IF_ERROR(group.writer->Write(offset, from, n));
      }
      i = end + 1;
    }
    return {};
  }

  Chunks* const chunks_;
  const TableRoot root_;
  File* const out_;
  Workers workers_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace

Status OpenFileSource(File* file, std::unique_ptr<BlockSource>* source) {
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  *source = std::make_unique<FileSource>(file, size, /*whole=*/true);
  return {};
}

std::unique_ptr<BlockSource> MemorySource(const uint8_t* data, size_t n) {
  return std::make_unique<MemoryBlocks>(data, n);
}

Status ImportVolume(Chunks* chunks, BlockSource* source, const TableRoot* base,
                    const ProgressFn& progress, TableRoot* root, Stored* stored) {
  IngestPlan plan;
  plan.stored = stored;
  plan.start.size = source->size();
  SATCHEL_RETURN_IF_ERROR(CheckRoot(plan.start));
  std::vector<LeafRange> ranges;
  SATCHEL_RETURN_IF_ERROR(FindLeaves(source, plan.start.leaves(), &ranges));
  WholeLeaves leaves(std::move(ranges));
  plan.next = [&](std::vector<LeafJob>* jobs) { return leaves.Next(jobs); };
  plan.source = source;
  plan.hint = base;
  plan.total = leaves.bytes();
  plan.level = chunks->LevelFor(plan.total);
  plan.bulk = true;
  return RunIngest(chunks, plan, progress, root);
}

Status ExportVolume(Chunks* chunks, const TableRoot& root, File* out, const ProgressFn& progress) {
  SATCHEL_RETURN_IF_ERROR(CheckRoot(root));
  SATCHEL_RETURN_IF_ERROR(out->Truncate(root.size));
  return Exporter(chunks, root, out).Run(progress);
}

Status CheckVolume(Chunks* chunks, const TableRoot& root, const ProgressFn& progress) {
  SATCHEL_RETURN_IF_ERROR(CheckRoot(root));
  return Exporter(chunks, root, /*out=*/nullptr).Run(progress);
}

Status ReadVolume(Chunks* chunks, const TableRoot& root, uint64_t offset, uint64_t length,
                  uint8_t* out) {
  SATCHEL_RETURN_IF_ERROR(CheckRoot(root));
  if (offset > root.size || length > root.size - offset) {
    return Status::Make(Kind::kUsage, "cannot read past the end of a volume",
                        "it has " + std::to_string(root.size) + " bytes");
  }
  std::memset(out, 0, length);
  if (length == 0) return {};
  uint8_t block[kBlockSize];
  TableVisitor visitor;
  visitor.on_blocks = [&](uint64_t first, const ChunkRef* refs, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      SATCHEL_RETURN_IF_ERROR(chunks->Get(refs[i], block));
      const uint64_t start = (first + i) * kBlockSize;
      const uint64_t from = std::max(start, offset);
      const uint64_t to = std::min(start + kBlockSize, offset + length);
      std::memcpy(out + (from - offset), block + (from - start), to - from);
    }
    return Status();
  };
  const uint64_t first = offset / kBlockSize;
  const uint64_t last = (offset + length - 1) / kBlockSize;
  return WalkTable(chunks, root, first, last - first + 1, visitor);
}

Status ResolveBlocks(Chunks* chunks, const TableRoot& root, BlockMap* map, uint64_t first,
                     uint64_t count, std::vector<ChunkRef>* missing) {
  SATCHEL_RETURN_IF_ERROR(CheckMap(root, *map));
  return Resolution(chunks, map).Run(root, first, count, missing);
}

Status MissingBlocks(Chunks* chunks, const TableRoot& root, uint64_t first, uint64_t count,
                     std::vector<ChunkRef>* missing) {
  SATCHEL_RETURN_IF_ERROR(CheckRoot(root));
  RefSet pages;
  RefSet blocks;
  TableVisitor visitor;
  visitor.on_blocks = [&](uint64_t, const ChunkRef* refs, uint32_t n) {
    Location at[kPageFanout];
    bool found[kPageFanout];
    SATCHEL_RETURN_IF_ERROR(chunks->Locate(refs, n, at, found));
    for (uint32_t i = 0; i < n; ++i) {
      if (!found[i] && !refs[i].IsZero()) blocks.Insert(refs[i], {});
    }
    return Status();
  };
  visitor.on_missing = [&](const ChunkRef& ref) {
    pages.Insert(ref, {});
    return Status();
  };
  SATCHEL_RETURN_IF_ERROR(WalkTable(chunks, root, first, count, visitor));
  missing->clear();
  for (const auto& entry : (pages.size() > 0 ? pages : blocks).entries()) {
    missing->push_back(entry.ref);
  }
  return {};
}

Status PlaceBlocks(Chunks* chunks, BlockMap* map, const uint32_t* numbers, size_t n,
                   const uint8_t* data) {
  for (size_t i = 0; i < n; ++i) {
    if (numbers[i] >= map->blocks()) {
      return Status::Make(Kind::kUsage, "cannot place block " + std::to_string(numbers[i]),
                          "the volume has " + std::to_string(map->blocks()));
    }
  }
  std::vector<ChunkRef> refs(n);
  std::vector<Location> at(n);
  const std::unique_ptr<bool[]> found(new bool[n]);
  SATCHEL_RETURN_IF_ERROR(chunks->Put(data, n, refs.data()));
  SATCHEL_RETURN_IF_ERROR(chunks->Locate(refs.data(), n, at.data(), found.get()));
  // The plugin reads the pack as soon as it sees the entry.
  SATCHEL_RETURN_IF_ERROR(chunks->Flush());
  for (size_t i = 0; i < n; ++i) {
    if (!found[i] && !refs[i].IsZero()) return MissingChunk(refs[i]);
    const BlockEntry entry = found[i] ? PackedEntry(at[i]) : kZeroEntry;
    map->Replace(numbers[i], BlockState::kAbsent, entry);
  }
  return {};
}

Status CommitVolume(Chunks* chunks, const TableRoot& root, BlockMap* map, File* overlay,
                    TableRoot* new_root) {
  SATCHEL_RETURN_IF_ERROR(CheckMap(root, *map));
  FileSource source(overlay, root.size, /*whole=*/false);
  DirtyLeaves leaves(*map);
  std::vector<uint64_t> blocks;
  std::vector<uint64_t> words;  // the entries that they get
  IngestPlan plan;
  plan.next = [&](std::vector<LeafJob>* jobs) { return leaves.Next(jobs); };
  plan.source = &source;
  plan.start = root;
  plan.rest = &root;
  plan.level = chunks->LevelFor(map->Count().of(BlockState::kDirty) * kBlockSize);
  plan.on_places = [&](const std::vector<BlockPlace>& places) {
    for (const BlockPlace& place : places) {
      blocks.push_back(place.block);
      words.push_back(EncodeEntry(place.at.pack == 0 ? kZeroEntry : PackedEntry(place.at)));
    }
  };
  SATCHEL_RETURN_IF_ERROR(RunIngest(chunks, plan, nullptr, new_root));
  // The plugin reads the pack as soon as it sees an entry.
  SATCHEL_RETURN_IF_ERROR(chunks->Flush());

  // Everything that can fail came before the first entry changes. An entry that somebody changed
  // meanwhile stays as it is.
  for (size_t i = 0; i < blocks.size(); ++i) {
    map->Replace(blocks[i], BlockState::kDirty, DecodeEntry(words[i]));
  }
  return {};
}

}  // namespace satchel
