// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/packs/chunks.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <utility>

#include "chunkstore/core/format/chunk_status.h"
#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/format/record.h"
#include "chunkstore/core/os/workers.h"

namespace satchel {
namespace {

constexpr size_t kGroup = 256;  // chunks that are looked up and appended together

// Content is stored raw where this many times its size is free.
constexpr uint64_t kRoomForRaw = 3;

// Bytes that the index may take for what is copied.
constexpr uint64_t kRoomOfIndex = 1 << 20;

// Bytes of the index that are worth a part of their own when it is loaded.
constexpr uint64_t kPartOfIndex = 1 << 16;

// A record that does not even parse is reported under the name that its header claims.
Status ClaimedInvalid(const Status& parsed, const uint8_t* data, size_t n) {
  ChunkRef claimed = kZeroRef;
  if (n >= kRecordHeaderSize) {
    std::memcpy(claimed.bytes, data + offsetof(RecordHeader, id), kChunkRefSize);
  }
  return InvalidChunk(claimed, parsed.what() + ": " + parsed.why());
}

// Fills an empty table with all that is in the index. On all processors: whoever comes to a store
// first waits for it. In many parts, of which a few are in memory at a time, beside the table; but
// a part costs a search in the index.
Status LoadPlaces(const Index& index, LocationTable* table) {
  unsigned parts = 1;
  const uint64_t bytes = index.Bytes();
  while (parts < 256 && parts * kPartOfIndex < bytes) parts *= 2;
  Workers workers(parts);
  std::atomic<unsigned> next{0};
  const auto load = [&] {
    for (unsigned part = next++; part < parts && workers.WaitForRoom(part); part = next++) {
      const auto found = std::make_shared<std::vector<LocationTable::Entry>>();
      const auto take = [&found](const ChunkRef& ref, const Location& at) {
        found->push_back(LocationTable::EntryOf(ref, at));
        return Status();
      };
      SATCHEL_RETURN_IF_ERROR(index.ForEachIn(part, parts, take));
      const auto add = [found, table] {
        for (const auto& entry : *found) table->Load(entry);
        return Status();
      };
      SATCHEL_RETURN_IF_ERROR(workers.InOrder(part, add));
    }
    return Status();
  };
  SATCHEL_RETURN_IF_ERROR(workers.Run(load, nullptr));
  table->Seal();
  return {};
}

}  // namespace

Chunks::Chunks(Env* env, std::string packs, std::unique_ptr<Index> index, PackPosition end,
               const ChunkOptions& options)
    : env_(env),
      folder_(packs),
      options_(options),
      index_(std::move(index)),
      reader_(env, packs),
      writer_(env, packs, end, options.pack_limit) {}

Chunks::~Chunks() { Stop(); }

Status Chunks::Put(const uint8_t* blocks, size_t n, ChunkRef* refs) {
  RecordBatch batch;
  Location at[kGroup];
  bool found[kGroup];
  for (size_t start = 0; start < n; start += kGroup) {
    const size_t count = std::min(kGroup, n - start);
    const uint8_t* group = blocks + start * kBlockSize;
    ChunkRef* names = refs + start;
    NameBlocks(group, count, names);
    SATCHEL_RETURN_IF_ERROR(Locate(names, count, at, found));
    batch.Clear();
    for (size_t i = 0; i < count; ++i) {
      if (found[i] || names[i].IsZero()) continue;
      batch.Add(names[i], group + i * kBlockSize, options_.level);
    }
    SATCHEL_RETURN_IF_ERROR(Append(std::move(batch)));
  }
  return {};
}

Status Chunks::Get(const ChunkRef& ref, uint8_t* block) {
  if (ref.IsZero()) {
    std::fill_n(block, kBlockSize, uint8_t{0});
    return {};
  }
  Location at;
  bool found = false;
  SATCHEL_RETURN_IF_ERROR(Locate(&ref, 1, &at, &found));
  // What is in the index only is reported, and then forgotten.
  if (!found) SATCHEL_RETURN_IF_ERROR(index_->Get(ref, &at, &found));
  if (!found) return MissingChunk(ref);
  const Status status = ReadChunk(ref, at, block);
  if (!IsLost(status)) return status;
  SATCHEL_RETURN_IF_ERROR(Forget(ref, at));
  return InvalidChunk(
      ref, "in " + PackName(at.pack) + " at " + std::to_string(at.offset) + ": " + status.why());
}

Status Chunks::ReadChunk(const ChunkRef& ref, const Location& at, uint8_t* block) {
  if (!at.in_frame()) {
    uint8_t buffer[kMaxRecordSize];
    RecordView record;
    SATCHEL_RETURN_IF_ERROR(ReadRaw(at, buffer, &record));
    if (record.ref == ref) return VerifyRecord(record, block);
    return Status::Make(Kind::kDamaged, "bad chunk record", "it is the record of another chunk");
  }
  SATCHEL_RETURN_IF_ERROR(ReadBlock(at, block));
  if (ref.Names(NameBlock(block))) return {};
  return InvalidChunk(ref, "its slot of a frame has another chunk");
}

// What is not found, not whole or not the right chunk goes the long way, which says what is wrong.
Status Chunks::GetTogether(const ChunkRef* refs, size_t n, BulkReader* reader, uint8_t* blocks) {
  std::vector<Location> at(n);
  SATCHEL_RETURN_IF_ERROR(Guess(refs, n, at.data()));
  reader->Read(at.data(), n, blocks);
  std::vector<ChunkRef> names(n);
  NameBlocks(blocks, n, names.data());
  for (size_t i = 0; i < n; ++i) {
    if (names[i] != refs[i]) SATCHEL_RETURN_IF_ERROR(Get(refs[i], blocks + i * kBlockSize));
  }
  return {};
}

// Where each chunk most likely is; pack 0 where it is not, or where it is zero.
Status Chunks::Guess(const ChunkRef* refs, size_t n, Location* at) {
  const MutexLock lock(&mutex_);
  SATCHEL_RETURN_IF_ERROR(LoadTable());
  Location candidates[LocationTable::kMaxCandidates];
  bool flush = false;
  for (size_t i = 0; i < n; ++i) {
    at[i] = Location{};
    if (refs[i].IsZero()) continue;
    if (!FindFresh(refs[i], &at[i]) && table_.Find(refs[i], candidates) > 0) at[i] = candidates[0];
    flush = flush || (at[i].pack != 0 && writer_.IsQueued(at[i]));
  }
  return flush ? WriteAllBefore(writer_.next_number()) : Status();
}

Status Chunks::Locate(const ChunkRef* refs, size_t n, Location* at, bool* found) {
  std::vector<Candidates> settle;
  {
    const MutexLock lock(&mutex_);
    SATCHEL_RETURN_IF_ERROR(LoadTable());
    Candidates candidates;
    for (size_t i = 0; i < n; ++i) {
      found[i] = !refs[i].IsZero() && FindFresh(refs[i], &at[i]);
      if (found[i] || refs[i].IsZero()) continue;
      candidates.asked = i;
      candidates.count = table_.Find(refs[i], candidates.at);
      if (candidates.count > 0) settle.push_back(candidates);
    }
  }
  for (const Candidates& each : settle) {
    const size_t i = each.asked;
    SATCHEL_RETURN_IF_ERROR(Confirm(refs[i], each, &at[i], &found[i]));
  }
  return {};
}

// Where no header agrees the index decides: the chunk is in a frame, or it was another chunk with
// the same prefix. What has no header any more does not count, so that it is stored when it comes
// again.
Status Chunks::Confirm(const ChunkRef& ref, const Candidates& candidates, Location* at,
                       bool* found) {
  for (unsigned k = 0; k < candidates.count; ++k) {
    if (!reader_.IsRecordOf(ref, candidates.at[k])) continue;
    *at = candidates.at[k];
    *found = true;
    return {};
  }
  SATCHEL_RETURN_IF_ERROR(index_->Get(ref, at, found));
  *found = *found && (reader_.IsRecordOf(ref, *at) || reader_.IsFrame(*at));
  return {};
}

Status Chunks::MaybeHere(const ChunkRef* refs, size_t n, bool* maybe) {
  const MutexLock lock(&mutex_);
  SATCHEL_RETURN_IF_ERROR(LoadTable());
  Location at[LocationTable::kMaxCandidates];
  for (size_t i = 0; i < n; ++i) {
    maybe[i] = FindFresh(refs[i], &at[0]) || table_.Find(refs[i], at) > 0;
  }
  return {};
}

Status Chunks::Records(const ChunkRef* refs, size_t n, std::string* out, const Sending& sending) {
  BulkReader reader(&reader_, sending.cache_use);
  std::vector<uint8_t> blocks;
  for (size_t start = 0; start < n; start += kGroup) {
    const size_t count = std::min(kGroup, n - start);
    bool here[kGroup];
    SATCHEL_RETURN_IF_ERROR(Expand(refs + start, count, &reader, &blocks, here));
    std::vector<ChunkRef> others;
    for (size_t i = 0; i < count; ++i) {
      if (!here[i]) others.push_back(refs[start + i]);
    }
    Location at[kGroup];
    bool found[kGroup];
    SATCHEL_RETURN_IF_ERROR(Locate(others.data(), others.size(), at, found));
    for (size_t i = 0, k = 0; i < count; ++i) {
      const ChunkRef& ref = refs[start + i];
      if (here[i]) {
        AppendRecord(ref, &blocks[i * kBlockSize], sending.level, out);
      } else if (const size_t other = k++; found[other]) {
        const Status status = AppendForOthers(ref, at[other], sending.level, out);
        SATCHEL_RETURN_IF_ERROR(IsLost(status) ? Forget(ref, at[other]) : status);
      }
    }
  }
  return {};
}

// Reads those chunks together that are not in records of their own, compressed. here[i]: the i-th
// is such a one, and both hashes are right.
Status Chunks::Expand(const ChunkRef* refs, size_t n, BulkReader* reader,
                      std::vector<uint8_t>* blocks, bool* here) {
  Location at[kGroup];
  SATCHEL_RETURN_IF_ERROR(Guess(refs, n, at));
  bool any = false;
  for (size_t i = 0; i < n; ++i) {
    here[i] = at[i].pack != 0 && at[i].length >= kBlockSize;
    if (!here[i]) at[i] = Location{};
    any = any || here[i];
  }
  if (!any) return {};
  blocks->resize(n * kBlockSize);
  reader->Read(at, n, blocks->data());
  ChunkRef names[kGroup];
  NameBlocks(blocks->data(), n, names);
  for (size_t i = 0; i < n; ++i) here[i] = here[i] && names[i] == refs[i];
  return {};
}

Status Chunks::AppendForOthers(const ChunkRef& ref, const Location& at, int level,
                               std::string* out) {
  if (at.in_frame()) {
    uint8_t block[kBlockSize];
    SATCHEL_RETURN_IF_ERROR(ReadChunk(ref, at, block));
    AppendRecord(ref, block, level, out);
    return {};
  }
  uint8_t buffer[kMaxRecordSize];
  RecordView record;
  SATCHEL_RETURN_IF_ERROR(ReadRaw(at, buffer, &record));
  if (record.ref != ref) return InvalidChunk(ref, "it is the record of another chunk");
  if (record.codec == Codec::kRaw) {
    AppendRecord(ref, record.payload, level, out);
  } else {
    out->append(reinterpret_cast<const char*>(buffer), record.size());
  }
  return {};
}

Status Chunks::Admit(const uint8_t* data, size_t n, std::vector<ChunkRef>* admitted) {
  RecordBatch batch;
  uint8_t block[kBlockSize];
  Status bad;
  while (bad.ok() && n > 0) {
    batch.Clear();
    const bool raw = options_.level == 0 && !SyncIsLate();
    while (bad.ok() && n > 0 && batch.items.size() < kGroup) {
      RecordView record;
      const Status parsed = ParseRecord(data, n, &record);
      bad = parsed.ok() ? VerifyRecord(record, block) : ClaimedInvalid(parsed, data, n);
      if (!bad.ok()) break;
      if (raw) {
        batch.Add(record.ref, block, 0);
      } else {
        batch.Add(record, data);
      }
      data += record.size();
      n -= record.size();
    }
    RecordBatch fresh;
    Location at[kGroup];
    bool found[kGroup];
    std::vector<ChunkRef> refs;
    for (const auto& item : batch.items) refs.push_back(item.ref);
    SATCHEL_RETURN_IF_ERROR(Locate(refs.data(), refs.size(), at, found));
    for (size_t i = 0; i < refs.size(); ++i) {
      if (found[i]) continue;
      const auto& item = batch.items[i];
      fresh.items.push_back({item.ref, static_cast<uint32_t>(fresh.bytes.size()), item.size});
      fresh.bytes.append(batch.bytes, item.offset, item.size);
    }
    SATCHEL_RETURN_IF_ERROR(Append(std::move(fresh)));
    admitted->insert(admitted->end(), refs.begin(), refs.end());
  }
  return bad;
}

Status Chunks::Append(RecordBatch batch) {
  std::vector<Location> at;
  SATCHEL_RETURN_IF_ERROR(Reserve(std::move(batch), &at));
  return Write();
}

Status Chunks::Reserve(RecordBatch batch, std::vector<Location>* at, Added* added) {
  at->resize(batch.items.size());
  std::string& bytes = batch.bytes;
  size_t begin = 0;  // bytes[begin, end) have places, from `first` on, and are not queued
  size_t end = 0;
  Location first{};
  const MutexLock lock(&mutex_);
  Status status = broken_;
  for (size_t i = 0; i < batch.items.size() && status.ok(); ++i) {
    const RecordBatch::Item& item = batch.items[i];
    Location* place = &(*at)[i];
    bool here = FindFresh(item.ref, place);  // put since it was looked up, or twice in the batch
    if (!here && !batch.again) status = FindSynced(item.ref, place, &here);
    if (here || !status.ok()) continue;
    if (end > begin && !writer_.Fits(item.size)) {
      writer_.Queue(bytes.substr(begin, end - begin), first, batch.bulk);
      begin = end;
    }
    status = writer_.Place(item.size, place);
    if (!status.ok()) break;
    if (begin == end) first = *place;
    if (end != item.offset) std::memmove(&bytes[end], &bytes[item.offset], item.size);
    end += item.size;
    pending_.Insert(item.ref, *place);
    if (added != nullptr) *added = {added->chunks + 1, added->bytes + item.size};
  }
  if (end == begin) return status;
  bytes.resize(end);
  writer_.Queue(begin == 0 ? std::move(bytes) : bytes.substr(begin), first, batch.bulk);
  return status;
}

// Another thread may have put it and synced it since it was looked up. Where it is new, the chunks
// that are here are looked through for one with its SHA-1: that costs a lookup in the index only
// where 32 bits of it agree.
Status Chunks::FindSynced(const ChunkRef& ref, Location* at, bool* found) {
  Candidates candidates;
  candidates.count = table_loaded_ ? table_.Find(ref, candidates.at) : 0;
  if (candidates.count > 0) SATCHEL_RETURN_IF_ERROR(Confirm(ref, candidates, at, found));
  if (*found) return {};
  bool namesake = pending_.HasNamesake(ref) || syncing_.HasNamesake(ref);
  if (!namesake && candidates.count > 0) {
    SATCHEL_RETURN_IF_ERROR(HasNamesake(ref, candidates, &namesake));
  }
  if (namesake && namesakes_.size() < kMaxNamesakes) namesakes_.push_back(ref);
  return {};
}

// Of chunks in frames the index does not have the whole SHA-1.
Status Chunks::HasNamesake(const ChunkRef& ref, const Candidates& candidates, bool* found) {
  uint8_t block[kBlockSize];
  for (unsigned k = 0; k < candidates.count && !*found; ++k) {
    if (!candidates.at[k].in_frame()) continue;
    if (!reader_.ReadBlock(candidates.at[k], block).ok()) continue;
    *found = ref.IsNamesakeOf(NameBlock(block));
  }
  return *found ? Status() : index_->HasNamesake(ref, found);
}

std::vector<ChunkRef> Chunks::TakeNamesakes() {
  const MutexLock lock(&mutex_);
  return std::exchange(namesakes_, {});
}

Status Chunks::Forget(const ChunkRef& ref, const Location& at) {
  SATCHEL_RETURN_IF_ERROR(Sync());
  const MutexLock one_at_a_time(&sync_mutex_);
  Location now;
  bool found = false;
  SATCHEL_RETURN_IF_ERROR(index_->Get(ref, &now, &found));
  if (!found || !(now == at)) return {};
  ++damaged_;
  PackPosition durable;
  SATCHEL_RETURN_IF_ERROR(index_->End(&durable));
  const Status erased = index_->Write({}, {ref}, durable);
  if (!erased.ok() && !erased.Is(Kind::kDenied)) return erased;  // who only reads leaves it there
  const MutexLock lock(&mutex_);
  table_.Remove(ref, at);
  return {};
}

Status Chunks::GetPage(const ChunkRef& ref, unsigned level, std::shared_ptr<const Page>* page) {
  return GetPageBy(nullptr, ref, level, page);
}

Status Chunks::GetPageBy(BulkReader* reader, const ChunkRef& ref, unsigned level,
                         std::shared_ptr<const Page>* page) {
  *page = pages_.Find(ref, level);
  if (*page != nullptr) return {};
  uint8_t block[kBlockSize];
  const Status status = reader == nullptr ? Get(ref, block) : GetTogether(&ref, 1, reader, block);
  if (status.Is(Kind::kInvalid)) return MissingChunk(ref, status.why());
  SATCHEL_RETURN_IF_ERROR(status);
  auto decoded = std::make_shared<Page>();
  SATCHEL_RETURN_IF_ERROR(DecodePage(ref, block, level, decoded.get()));
  *page = decoded;
  pages_.Insert(ref, level, std::move(decoded));
  return {};
}

Status Chunks::StorePage(const Page& page, unsigned level, RecordBatch* batch, ChunkRef* ref) {
  *ref = kZeroRef;
  if (page.IsZero()) return {};
  uint8_t block[kBlockSize];
  EncodePage(page, level, block);
  *ref = HashBlock(block);
  Location at;
  bool found = false;
  SATCHEL_RETURN_IF_ERROR(Locate(ref, 1, &at, &found));
  if (!found) batch->Add(*ref, block, options_.level);
  return {};
}

Status Chunks::ReadRaw(const Location& at, uint8_t* buffer, RecordView* record) {
  SATCHEL_RETURN_IF_ERROR(Readable(at));
  return reader_.ReadRaw(at, buffer, record);
}

Status Chunks::ReadBlock(const Location& at, uint8_t* block) {
  SATCHEL_RETURN_IF_ERROR(Readable(at));
  return reader_.ReadBlock(at, block);
}

int Chunks::LevelFor(uint64_t bytes) const {
  if (options_.level != 0) return options_.level;
  uint64_t free = 0;
  const bool room = env_->FreeBytes(folder_, &free).ok() && free / kRoomForRaw >= bytes;
  return room ? 0 : kFastLevel;
}

bool Chunks::HasRoomFor(uint64_t bytes) const {
  uint64_t free = 0;
  return !env_->FreeBytes(folder_, &free).ok() || free >= bytes + kRoomOfIndex;
}

PackPosition Chunks::end() {
  const MutexLock lock(&mutex_);
  return writer_.end();
}

// What is put meanwhile is in `pending_` or `syncing_`; a Sync that ends waits for the mutex.
Status Chunks::LoadTable() {
  if (table_loaded_) return {};
  table_ = LocationTable();
  SATCHEL_RETURN_IF_ERROR(LoadPlaces(*index_, &table_));
  table_loaded_ = true;
  return {};
}

bool Chunks::FindFresh(const ChunkRef& ref, Location* at) const {
  const Location* found = pending_.Find(ref);
  if (found == nullptr) found = syncing_.Find(ref);
  if (found != nullptr) *at = *found;
  return found != nullptr;
}

Status Chunks::Readable(const Location& at) {
  const MutexLock lock(&mutex_);
  return writer_.IsQueued(at) ? WriteAllBefore(writer_.next_number()) : Status();
}

}  // namespace satchel
