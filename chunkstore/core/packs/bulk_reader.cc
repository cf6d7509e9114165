// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/packs/bulk_reader.h"

#include <algorithm>
#include <new>
#include <tuple>

#include "chunkstore/core/format/record.h"
#include "chunkstore/core/os/env.h"

namespace satchel {
namespace {

constexpr uint64_t kAlign = File::kUncachedAlign;

uint8_t* Allocate(size_t n) {
  void* const memory = std::aligned_alloc(kAlign, n);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<uint8_t*>(memory);
}

uint64_t EndOf(const Location& at) { return uint64_t{at.offset} + at.size(); }

}  // namespace

BulkReader::BulkReader(PackReader* packs, CacheUse cache_use)
    : packs_(packs), cache_use_(cache_use), span_(Allocate(kMaxSpan)) {}

void BulkReader::Read(const Location* at, size_t n, uint8_t* blocks) {
  order_.clear();
  for (uint32_t i = 0; i < n; ++i) {
    if (at[i].pack != 0) {
      order_.push_back(i);
    } else {
      std::fill_n(blocks + size_t{i} * kBlockSize, kBlockSize, uint8_t{0});
    }
  }
  std::sort(order_.begin(), order_.end(), [at](uint32_t a, uint32_t b) {
    return std::tie(at[a].pack, at[a].offset, at[a].slot) <
           std::tie(at[b].pack, at[b].offset, at[b].slot);
  });
  for (size_t k = 0; k < order_.size();) k = ReadSpan(at, k, blocks);
}

// Reads what goes together from the `k`-th in order on, and gives the first that does not.
size_t BulkReader::ReadSpan(const Location* at, size_t k, uint8_t* blocks) {
  const Location& first = at[order_[k]];
  const uint64_t begin = first.offset / kAlign * kAlign;
  uint64_t end = EndOf(first);
  size_t stop = k + 1;
  for (; stop < order_.size(); ++stop) {
    const Location& next = at[order_[stop]];
    if (next.pack != first.pack || next.offset > end + kMaxGap) break;
    if (EndOf(next) - begin > kMaxSpan) break;
    end = std::max(end, EndOf(next));
  }
  const size_t size = (end - begin + kAlign - 1) / kAlign * kAlign;
  size_t got = 0;
  const Status status = cache_use_ == CacheUse::kOnce
                            ? packs_->ReadSpanUncached(first.pack, begin, size, span_.get(), &got)
                            : packs_->ReadSpan(first.pack, begin, end - begin, span_.get(), &got);
  if (!status.ok()) got = 0;
  frame_ = Location{};
  for (; k < stop; ++k) {
    const Location& each = at[order_[k]];
    const size_t skip = std::min<size_t>(each.offset - begin, got);
    Decode(each, span_.get() + skip, got - skip, blocks + size_t{order_[k]} * kBlockSize);
  }
  return stop;
}

// The chunk at `at`, whose record or frame begins at `data`, where `n` bytes are.
void BulkReader::Decode(const Location& at, const uint8_t* data, size_t n, uint8_t* block) {
  bool whole = false;
  if (at.in_frame()) {
    FrameView view;
    if (!frame_.SamePlace(at)) {
      whole = ParseFrame(data, n, &view).ok() && FrameLength(view.length) == at.length;
      frame_ = whole ? at : Location{};
      if (whole) decoder_.Start(view);
    }
    whole = frame_.SamePlace(at) && decoder_.Block(at.slot, block).ok();
  } else {
    RecordView record;
    whole = ParseRecord(data, n, &record).ok() && DecodeRecord(record, block).ok();
  }
  if (!whole) std::fill_n(block, kBlockSize, uint8_t{0});
}

}  // namespace satchel
