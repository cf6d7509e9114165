// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A cache that is to become smaller gives chunks up.
//
// First they leave the index, then packs that hold much garbage are rewritten, those first in which
// the least is left: a pack of which nothing is left needs no room to go. Unlike prune it takes
// packs that block maps point into, too: the copies are made durable, the index and then the maps
// are pointed there, and only then is the pack removed, as settling does. It runs alone, in short
// calls: who has packs of 16 MiB waits for the copying of one of them.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "chunkstore/core/store.h"

namespace satchel {
namespace {

constexpr uint64_t kGarbagePart = 3;  // a pack goes of which one of so many bytes is garbage

}  // namespace

Status Store::Evict(const std::vector<ChunkRef>& refs, EvictReport* report) {
  ++wanting_alone_;
  const AloneLock gate(&gate_);
  --wanting_alone_;
  if (chunks_ == nullptr) return Status::Make(Kind::kState, "store " + path_ + " has no index");
  SATCHEL_RETURN_IF_ERROR(chunks_->Sync());
  std::unordered_set<uint64_t> used;
  PlacesInMaps(&used);
  std::vector<Location> at(refs.size());
  const std::unique_ptr<bool[]> found(new bool[refs.size()]);
  SATCHEL_RETURN_IF_ERROR(chunks_->Locate(refs.data(), refs.size(), at.data(), found.get()));
  std::vector<ChunkRef> erase;
  for (size_t i = 0; i < refs.size(); ++i) {
    if (!found[i]) continue;
    if (used.count(EncodeLocation(at[i])) != 0) {
      report->pinned.push_back(refs[i]);
    } else {
      erase.push_back(refs[i]);
    }
  }
  SATCHEL_RETURN_IF_ERROR(chunks_->Erase(erase));
  report->evicted = erase.size();
  std::vector<uint32_t> packs;
  SATCHEL_RETURN_IF_ERROR(FindSparsePacks(&packs));
  for (const uint32_t pack : packs) SATCHEL_RETURN_IF_ERROR(Vacate(pack));
  std::map<uint32_t, uint64_t> sizes;
  SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
  for (const auto& [pack, size] : sizes) report->pack_bytes += size;
  return {};
}

// Packs with much garbage, those with the least besides first.
Status Store::FindSparsePacks(std::vector<uint32_t>* packs) {
  std::map<uint32_t, uint64_t> sizes;
  std::map<uint32_t, uint64_t> live;
  SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
  SATCHEL_RETURN_IF_ERROR(chunks_->index()->ForEach([&](const ChunkRef&, const Location& at) {
    if (!at.in_frame() || at.slot == 0) live[at.pack] += at.size();
    return Status();
  }));
  std::vector<std::pair<uint64_t, uint32_t>> sparse;
  for (const auto& [pack, size] : sizes) {
    const uint64_t garbage = size - std::min(size, live[pack] + kPackHeaderSize);
    const bool empty = live[pack] == 0 && size > kPackHeaderSize;
    if (empty || garbage * kGarbagePart >= size) sparse.emplace_back(live[pack], pack);
  }
  std::sort(sparse.begin(), sparse.end());
  for (const auto& [bytes, pack] : sparse) packs->push_back(pack);
  return {};
}

// Copies what the index has in a pack, points maps there, and removes it. A map that points to what
// the index does not have keeps the pack.
Status Store::Vacate(uint32_t pack) {
  if (pack == chunks_->end().pack) SATCHEL_RETURN_IF_ERROR(chunks_->EndPack());
  std::vector<Index::Entry> entries;
  SATCHEL_RETURN_IF_ERROR(EntriesOf(chunks_->index(), pack, &entries));
  SATCHEL_RETURN_IF_ERROR(chunks_->Move(entries));
  SATCHEL_RETURN_IF_ERROR(chunks_->Sync());
  Moves moves;
  for (const Index::Entry& entry : entries) {
    Location now;
    bool found = false;
    SATCHEL_RETURN_IF_ERROR(chunks_->index()->Get(entry.ref, &now, &found));
    if (found) moves[EncodeLocation(entry.value)] = EncodeLocation(now);
  }
  if (RepointMaps(pack, moves) != 0) return {};
  chunks_->LeavePack(pack);
  SATCHEL_RETURN_IF_ERROR(env_->Remove(PackPath(pack)));
  return env_->SyncDir(PacksPath());
}

void Store::PlacesInMaps(std::unordered_set<uint64_t>* places) {
  const MutexLock lock(&maps_mutex_);
  for (const std::shared_ptr<BlockMapHandle>& handle : maps_) {
    const MutexLock held(&handle->mutex);
    const BlockMap* const map = handle->map;
    for (uint64_t i = 0; map != nullptr && i < map->blocks(); ++i) {
      const BlockEntry entry = map->Load(i);
      if (entry.state == BlockState::kPacked) places->insert(EncodeLocation(entry.at));
    }
  }
}

Status Store::Names(std::vector<ChunkRef>* refs) {
  return WithChunks([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    std::vector<std::pair<uint64_t, ChunkRef>> found;
    SATCHEL_RETURN_IF_ERROR(chunks->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
      found.emplace_back((uint64_t{at.pack} << 32) | at.offset, ref);
      return Status();
    }));
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [place, ref] : found) refs->push_back(ref);
    return Status();
  });
}

Status Store::NamesIn(const BlockMap& map, const std::vector<uint64_t>& blocks,
                      std::vector<ChunkRef>* refs) {
  return WithChunks([&](Chunks* chunks) {
    for (const uint64_t block : blocks) {
      ChunkRef ref;
      const BlockEntry entry = map.Load(block);
      if (entry.state == BlockState::kPacked && !chunks->NameAt(entry.at, &ref).ok()) ref = {};
      refs->push_back(ref);
    }
    return Status();
  });
}

}  // namespace satchel
