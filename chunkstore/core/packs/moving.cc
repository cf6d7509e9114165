// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Chunks that get another place, or go, for prune, for settling and for a cache.
#include <algorithm>
#include <utility>

#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/format/record.h"
#include "chunkstore/core/packs/chunks.h"

namespace satchel {
namespace {

constexpr size_t kBatch = 256;  // chunks that are appended together

}  // namespace

bool IsLost(const Status& status) {
  return status.Is(Kind::kDamaged) || status.Is(Kind::kInvalid) || status.Is(Kind::kNotFound);
}

Status Chunks::Move(const std::vector<Index::Entry>& entries, std::vector<ChunkRef>* lost) {
  SATCHEL_RETURN_IF_ERROR(Sync());
  uint8_t buffer[kMaxRecordSize];
  lost->clear();
  RecordBatch batch;
  batch.again = true;
  for (size_t i = 0; i < entries.size();) {
    const Index::Entry& entry = entries[i];
    size_t end = i + 1;
    if (entry.value.in_frame()) {
      while (end < entries.size() && entries[end].value.SamePlace(entry.value)) ++end;
      SATCHEL_RETURN_IF_ERROR(MoveFrame(&entry, end - i, &batch, lost));
    } else {
      RecordView record;
      const Status status = ReadRaw(entry.value, buffer, &record);
      if (IsLost(status) || (status.ok() && record.ref != entry.ref)) {
        lost->push_back(entry.ref);
      } else {
        SATCHEL_RETURN_IF_ERROR(status);
        batch.Add(record, buffer);
      }
    }
    i = end;
    if (batch.items.size() < kBatch) continue;
    SATCHEL_RETURN_IF_ERROR(Append(std::move(batch)));
    batch.Clear();
  }
  damaged_ += lost->size();
  return Append(std::move(batch));
}

// `entries` are those of one frame. At least three quarters of its chunks: it is copied as it is.
Status Chunks::MoveFrame(const Index::Entry* entries, size_t n, RecordBatch* batch,
                         std::vector<ChunkRef>* lost) {
  const Location& at = entries[0].value;
  std::string bytes(at.size(), '\0');
  size_t got = 0;
  FrameView frame;
  auto* data = reinterpret_cast<uint8_t*>(bytes.data());
  Status status = reader_.ReadSpan(at.pack, at.offset, bytes.size(), data, &got);
  if (status.ok()) status = ParseFrame(data, got, &frame);
  if (status.ok() && n * 4 >= size_t{frame.count} * 3) {
    FrameDecoder decoder;
    std::vector<ChunkRef> names;
    status = NameFrame(frame, &decoder, &names);
    ChunkRef refs[kMaxFrameChunks] = {};
    bool whole = status.ok();
    for (size_t i = 0; i < n && whole; ++i) {
      const uint8_t slot = entries[i].value.slot;
      whole = slot < frame.count && entries[i].ref.Names(names[slot]);
      if (whole) refs[slot] = names[slot];
    }
    if (!whole) return TakeApart(entries, n, batch, lost);
    bytes.resize(frame.size());
    Location moved;
    return AppendFrame(std::move(bytes), refs, frame.count, &moved);
  }
  if (!status.ok() && !IsLost(status)) return status;
  return TakeApart(entries, n, batch, lost);
}

// Makes a record of each chunk of a frame.
Status Chunks::TakeApart(const Index::Entry* entries, size_t n, RecordBatch* batch,
                         std::vector<ChunkRef>* lost) {
  uint8_t block[kBlockSize];
  for (size_t i = 0; i < n; ++i) {
    const Status read = ReadChunk(entries[i].ref, entries[i].value, block);
    if (IsLost(read)) {
      lost->push_back(entries[i].ref);
      continue;
    }
    SATCHEL_RETURN_IF_ERROR(read);
    batch->Add(NameBlock(block), block, options_.level);
  }
  return {};
}

Status Chunks::AppendFrame(std::string frame, const ChunkRef* refs, unsigned count, Location* at) {
  {
    const MutexLock lock(&mutex_);
    SATCHEL_RETURN_IF_ERROR(broken_);
    const auto size = static_cast<uint32_t>(frame.size());
    SATCHEL_RETURN_IF_ERROR(writer_.Place(size, at));
    at->length = FrameLength(size - kFrameHeaderSize);
    writer_.Queue(std::move(frame), *at, /*bulk=*/true);
    Location slot = *at;
    for (unsigned i = 0; i < count; ++i) {
      slot.slot = static_cast<uint8_t>(i);
      if (!refs[i].IsZero()) pending_.Insert(refs[i], slot);
    }
  }
  return Write();
}

Status Chunks::EraseAt(const std::vector<Index::Entry>& entries) {
  SATCHEL_RETURN_IF_ERROR(Sync());
  std::vector<ChunkRef> refs;
  refs.reserve(entries.size());
  for (const Index::Entry& entry : entries) refs.push_back(entry.ref);
  PackPosition durable;
  SATCHEL_RETURN_IF_ERROR(index_->End(&durable));
  SATCHEL_RETURN_IF_ERROR(index_->Write({}, refs, durable));
  pages_.Clear();
  const MutexLock lock(&mutex_);
  for (const Index::Entry& entry : entries) table_.Remove(entry.ref, entry.value);
  return {};
}

Status Chunks::NameAt(const Location& at, ChunkRef* ref) {
  uint8_t block[kBlockSize];
  SATCHEL_RETURN_IF_ERROR(ReadBlock(at, block));
  *ref = NameBlock(block);
  return {};
}

// Those of `put` in records that the index may still have in a frame.
std::vector<ChunkRef> Chunks::LeftFrames(const std::vector<Index::Entry>& put) const {
  if (!table_loaded_) return Index::OfFrames(put);
  std::vector<ChunkRef> refs;
  Location at[LocationTable::kMaxCandidates];
  for (const Index::Entry& entry : put) {
    if (entry.value.in_frame()) continue;
    const unsigned count = table_.Find(entry.ref, at);
    const bool all = count < LocationTable::kMaxCandidates;
    const auto in_frame = [](const Location& each) { return each.in_frame(); };
    if (!all || std::any_of(at, at + count, in_frame)) refs.push_back(entry.ref.Cut());
  }
  return refs;
}

Status Chunks::Erase(const std::vector<ChunkRef>& refs) {
  SATCHEL_RETURN_IF_ERROR(Sync());
  PackPosition durable;
  SATCHEL_RETURN_IF_ERROR(index_->End(&durable));
  SATCHEL_RETURN_IF_ERROR(index_->Write({}, refs, durable));
  pages_.Clear();
  const MutexLock lock(&mutex_);
  table_ = LocationTable();
  table_loaded_ = false;
  return {};
}

void Chunks::LeavePack(uint32_t pack) {
  const MutexLock lock(&mutex_);
  table_.RemovePack(pack);
  reader_.Forget(pack);
}

}  // namespace satchel
