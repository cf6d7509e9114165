// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A cache that is to become smaller gives chunks up.
//
// First they leave the index, then packs that hold much garbage are rewritten, those first in which
// the least is left: a pack of which nothing is left needs no room to go. Unlike prune it takes
// packs that block maps point into, too: the copies are made durable, the index and then the maps
// are pointed there, and only then is the pack removed, as settling does.
//
// Machines that miss are not to wait for it. So it has the store alone only in short pieces: to
// take a few thousand chunks out of the index, and to copy one pack. Looking through the index,
// twice, is done beside everything else. What is put meanwhile goes to packs that are not looked
// at: the newest is ended first where it is to go.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "chunkstore/core/store/store.h"

namespace satchel {
namespace {

constexpr uint64_t kGarbagePart = 3;  // a pack goes of which one of so many bytes is garbage

constexpr size_t kPiece = 1024;  // chunks that leave the index at once

}  // namespace

Status Store::Evict(const std::vector<ChunkRef>& refs, EvictReport* report) {
  for (size_t first = 0; first < refs.size(); first += kPiece) {
    const size_t end = std::min(first + kPiece, refs.size());
    const std::vector<ChunkRef> piece(refs.begin() + static_cast<ptrdiff_t>(first),
                                      refs.begin() + static_cast<ptrdiff_t>(end));
    SATCHEL_RETURN_IF_ERROR(Drop(piece, report));
  }
  std::vector<PackEntries> sparse;
  SATCHEL_RETURN_IF_ERROR(FindSparsePacks(&sparse));
  for (const PackEntries& pack : sparse) SATCHEL_RETURN_IF_ERROR(Vacate(pack));
  std::map<uint32_t, uint64_t> sizes;
  SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
  for (const auto& [pack, size] : sizes) report->pack_bytes += size;
  return {};
}

Status Store::Alone(const std::function<Status(Chunks*)>& act) {
  ++wanting_alone_;
  const AloneLock gate(&gate_);
  --wanting_alone_;
  if (chunks_ == nullptr) return Status::Make(Kind::kState, "store " + path_ + " has no index");
  return act(chunks_.get());
}

// Takes chunks out of the index, but for those that maps point to.
Status Store::Drop(const std::vector<ChunkRef>& refs, EvictReport* report) {
  return Alone([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    std::vector<Location> at(refs.size());
    const std::unique_ptr<bool[]> found(new bool[refs.size()]);
    SATCHEL_RETURN_IF_ERROR(chunks->Locate(refs.data(), refs.size(), at.data(), found.get()));
    std::unordered_set<uint64_t> places;
    for (size_t i = 0; i < refs.size(); ++i) {
      if (found[i]) places.insert(EncodeLocation(at[i]));
    }
    std::unordered_set<uint64_t> used;
    FindInMaps(places, &used);
    std::vector<Index::Entry> erase;
    for (size_t i = 0; i < refs.size(); ++i) {
      if (!found[i]) continue;
      if (used.count(EncodeLocation(at[i])) != 0) {
        report->pinned.push_back(refs[i]);
      } else {
        erase.push_back({refs[i], at[i]});
      }
    }
    report->evicted += erase.size();
    return chunks->EraseAt(erase);
  });
}

// Packs with much garbage and what the index has in them, those with the least besides first.
Status Store::FindSparsePacks(std::vector<PackEntries>* packs) {
  std::map<uint32_t, uint64_t> sizes;
  uint32_t newest = 0;
  const auto look = [&](Chunks* chunks) {
    newest = chunks->end().pack;
    const Status synced = chunks->Sync();
    return synced.ok() ? PackSizes(&sizes) : synced;
  };
  SATCHEL_RETURN_IF_ERROR(Alone(look));
  std::map<uint32_t, uint64_t> live;
  SATCHEL_RETURN_IF_ERROR(ForEachIndexed([&](const ChunkRef&, const Location& at) {
    if (!at.in_frame() || at.slot == 0) live[at.pack] += at.size();
  }));
  std::map<uint32_t, PackEntries> sparse;
  for (const auto& [pack, size] : sizes) {
    const uint64_t garbage = size - std::min(size, live[pack] + kPackHeaderSize);
    const bool empty = live[pack] == 0 && size > kPackHeaderSize;
    if (empty || garbage * kGarbagePart >= size) sparse[pack] = {pack, live[pack], {}};
  }
  const auto end = [newest](Chunks* chunks) {
    const Status ended = chunks->end().pack == newest ? chunks->EndPack() : Status();
    return ended.ok() ? chunks->Sync() : ended;
  };
  if (sparse.count(newest) != 0) SATCHEL_RETURN_IF_ERROR(Alone(end));
  if (sparse.empty()) return {};
  SATCHEL_RETURN_IF_ERROR(ForEachIndexed([&](const ChunkRef& ref, const Location& at) {
    const auto pack = sparse.find(at.pack);
    if (pack != sparse.end()) pack->second.entries.push_back({ref, at});
  }));
  for (auto& [number, pack] : sparse) packs->push_back(std::move(pack));
  std::sort(packs->begin(), packs->end(), [](const PackEntries& a, const PackEntries& b) {
    return std::tie(a.live, a.pack) < std::tie(b.live, b.pack);
  });
  return {};
}

Status Store::ForEachIndexed(const std::function<void(const ChunkRef&, const Location&)>& visit) {
  return WithChunks([&](Chunks* chunks) {
    return chunks->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
      visit(ref, at);
      return Status();
    });
  });
}

// Copies what the index still has in a pack, points maps there, and removes it. A map that points
// to what the index does not have keeps the pack.
Status Store::Vacate(const PackEntries& pack) {
  return Alone([&](Chunks* chunks) {
    std::vector<Index::Entry> entries;
    Location now;
    bool found = false;
    for (const Index::Entry& entry : pack.entries) {
      SATCHEL_RETURN_IF_ERROR(chunks->index()->Get(entry.ref, &now, &found));
      const bool here = found && EncodeLocation(now) == EncodeLocation(entry.value);
      if (here) entries.push_back(entry);
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::tie(a.value.offset, a.value.slot) < std::tie(b.value.offset, b.value.slot);
    });
    std::vector<ChunkRef> lost;
    SATCHEL_RETURN_IF_ERROR(chunks->Move(entries, &lost));
    SATCHEL_RETURN_IF_ERROR(lost.empty() ? chunks->Sync() : chunks->Erase(lost));
    Moves moves;
    for (const Index::Entry& entry : entries) {
      SATCHEL_RETURN_IF_ERROR(chunks->index()->Get(entry.ref, &now, &found));
      if (found) moves[EncodeLocation(entry.value)] = EncodeLocation(now);
    }
    if (RepointMaps(pack.pack, moves) != 0) return Status();
    chunks->LeavePack(pack.pack);
    const Status removed = env_->Remove(PackPath(pack.pack));
    if (!removed.ok() && !removed.Is(Kind::kNotFound)) return removed;
    return env_->SyncDir(PacksPath());
  });
}

// Which of these places maps point to.
void Store::FindInMaps(const std::unordered_set<uint64_t>& places,
                       std::unordered_set<uint64_t>* used) {
  const MutexLock lock(&maps_mutex_);
  for (const std::shared_ptr<BlockMapHandle>& handle : maps_) {
    const MutexLock held(&handle->mutex);
    const BlockMap* const map = handle->map;
    for (uint64_t i = 0; map != nullptr && i < map->blocks(); ++i) {
      const BlockEntry entry = map->Load(i);
      if (entry.state != BlockState::kPacked) continue;
      const uint64_t place = EncodeLocation(entry.at);
      if (places.count(place) != 0) used->insert(place);
    }
  }
}

Status Store::Names(std::vector<ChunkRef>* refs) {
  return WithChunks([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    std::vector<std::pair<uint64_t, ChunkRef>> found;
    SATCHEL_RETURN_IF_ERROR(chunks->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
      found.emplace_back((uint64_t{at.pack} << 32) | at.offset, ref);
      if (!at.in_frame()) return Status();
      const Status status = chunks->NameAt(at, &found.back().second);
      if (IsLost(status)) found.pop_back();
      return IsLost(status) ? Status() : status;
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
