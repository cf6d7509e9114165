// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Looking after a store: verify, rebuild, prune, stats.
//
// Prune never changes a pack: it copies the live records of packs that hold much garbage to new
// packs, makes the copies durable, points the index to them, and only then removes the old packs.
// A crash in between leaves a pack that the index does not point to; the next prune removes it.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/os/workers.h"
#include "chunkstore/core/packs/pack_scan.h"
#include "chunkstore/core/store/holes.h"
#include "chunkstore/core/store/store.h"

namespace satchel {
namespace {

constexpr size_t kIndexBatch = 1 << 16;

// Chunks of one pack by the index, and by reading it.
struct PackTally {
  uint64_t indexed = 0;
  uint64_t whole = 0;  // whole chunks at the place that the index has for them
};

// Bytes of a pack that are no record, and not all zero, or no header. claimed: the index has a
// chunk there.
struct Garbage {
  uint64_t end = 0;
  std::string why;
  bool claimed = false;
};

class Verifier {
 public:
  Verifier(Env* env, Chunks* chunks, std::string folder,
           std::vector<std::pair<uint32_t, uint64_t>> packs, uint64_t total, VerifyReport* report)
      : env_(env),
        chunks_(chunks),
        folder_(std::move(folder)),
        packs_(std::move(packs)),
        workers_(total),
        report_(report) {}

  Status Run(const ProgressFn& progress) {
    SATCHEL_RETURN_IF_ERROR(workers_.Run([this] { return Work(); }, progress));
    const MutexLock lock(&mutex_);
    SATCHEL_RETURN_IF_ERROR(CountIndexed());
    JudgeGarbage();
    SATCHEL_RETURN_IF_ERROR(FindDangling());
    std::stable_sort(report_->bad.begin(), report_->bad.end(), [](const auto& a, const auto& b) {
      return std::pair(a.pack, a.offset) < std::pair(b.pack, b.offset);
    });
    return {};
  }

 private:
  Status Work() {
    for (;;) {
      const size_t i = next_++;
      if (i >= packs_.size() || workers_.stopped()) return {};
      const Status status = ReadPack(packs_[i].first, packs_[i].second);
      if (status.Is(Kind::kCancelled)) return {};
      if (!status.ok()) AddBad(packs_[i].first, 0, status.ToString());
    }
  }

  Status ReadPack(uint32_t pack, uint64_t end) {
    std::unique_ptr<File> file;
    SATCHEL_RETURN_IF_ERROR(env_->Open(folder_ + "/" + PackName(pack), OpenMode::kRead, &file));
    if (const Status header = CheckPackHeader(file.get()); !header.ok()) {
      const MutexLock lock(&mutex_);
      garbage_[{pack, 0}] = Garbage{kPackHeaderSize, header.why()};
    }
    ScanVisitor visitor;
    visitor.on_record = [&](uint64_t offset, const RecordView& record, bool) {
      return CheckRecord(pack, offset, record);
    };
    FrameDecoder decoder;
    visitor.on_frame = [&](uint64_t offset, const FrameView& frame) {
      return CheckFrame(pack, offset, frame, &decoder);
    };
    visitor.on_garbage = [&](uint64_t begin, uint64_t stop, const std::string& why) {
      bool hole = false;
      SATCHEL_RETURN_IF_ERROR(IsHole(file.get(), begin, stop, &hole));
      const MutexLock lock(&mutex_);
      // What should be in a hole is dangling.
      const std::string what = std::to_string(stop - begin) + " bytes are no record: " + why;
      if (!hole) garbage_[{pack, begin}] = Garbage{stop, what};
      return Status();
    };
    return ScanPack(file.get(), kPackHeaderSize, end, visitor);
  }

  Status CheckRecord(uint32_t pack, uint64_t offset, const RecordView& record) {
    if (workers_.stopped()) return Status::Make(Kind::kCancelled, "stopped");
    workers_.Done(record.size());
    uint8_t block[kBlockSize];
    if (const Status status = VerifyRecord(record, block); !status.ok()) {
      AddBad(pack, offset, status.ToString());
      return {};
    }
    const Location here{pack, static_cast<uint32_t>(offset), record.length};
    if (IsPage(block)) AddPage(here);
    return CheckIndexed({{record.ref, here}}, record.size());
  }

  Status CheckFrame(uint32_t pack, uint64_t offset, const FrameView& frame, FrameDecoder* decoder) {
    if (workers_.stopped()) return Status::Make(Kind::kCancelled, "stopped");
    workers_.Done(frame.size());
    std::vector<ChunkRef> names;
    if (const Status status = NameFrame(frame, decoder, &names); !status.ok()) {
      AddBad(pack, offset, status.ToString());
      return {};
    }
    std::vector<Index::Entry> entries;
    for (unsigned i = 0; i < frame.count; ++i) {
      entries.push_back({names[i], frame.Slot(pack, offset, i)});
      if (frame.codec == FrameCodec::kPages) AddPage(entries.back().value);
    }
    return CheckIndexed(entries, frame.size());
  }

  // `entries`: what is whole, and where that is.
  Status CheckIndexed(const std::vector<Index::Entry>& entries, uint64_t bytes) {
    std::vector<ChunkRef> unindexed;
    uint64_t whole = 0;
    for (const auto& [ref, here] : entries) {
      Location at;
      bool found = false;
      SATCHEL_RETURN_IF_ERROR(chunks_->index()->Get(ref, &at, &found));
      if (!found) unindexed.push_back(ref);
      if (found && at == here) ++whole;
    }
    const MutexLock lock(&mutex_);
    report_->records += entries.size();
    report_->bytes += bytes;
    report_->unindexed.insert(report_->unindexed.end(), unindexed.begin(), unindexed.end());
    tally_[entries.front().value.pack].whole += whole;
    return {};
  }

  void AddBad(uint32_t pack, uint64_t offset, std::string why) {
    const MutexLock lock(&mutex_);
    report_->bad.push_back(BadRecord{pack, offset, std::move(why)});
  }

  void AddPage(const Location& at) {
    const MutexLock lock(&mutex_);
    pages_.push_back(at);
  }

  Status CountIndexed() REQUIRES(mutex_) {
    const PackPosition end = chunks_->end();
    return chunks_->index()->ForEach([&](const ChunkRef&, const Location& at) REQUIRES(mutex_) {
      if (at.pack <= end.pack) ++tally_[at.pack].indexed;
      Claim(at);
      return Status();
    });
  }

  void Claim(const Location& at) REQUIRES(mutex_) {
    auto next = garbage_.upper_bound({at.pack, at.offset});
    if (next == garbage_.begin()) return;
    auto& [place, garbage] = *--next;
    if (place.first == at.pack && at.offset < garbage.end) garbage.claimed = true;
  }

  // Where the index has nothing, nobody looks for anything: a power cut leaves such places. Of a
  // header anything in the pack counts.
  void JudgeGarbage() REQUIRES(mutex_) {
    for (const auto& [place, garbage] : garbage_) {
      const auto [pack, offset] = place;
      if (garbage.claimed || (offset == 0 && tally_[pack].indexed > 0)) {
        report_->bad.push_back({pack, offset, garbage.why});
      } else {
        report_->unclaimed += garbage.end - offset;
      }
    }
  }

  // Only packs whose numbers disagree are looked at entry by entry.
  Status FindDangling() REQUIRES(mutex_) {
    RefMap<Location> cut;
    const auto look = [&](const ChunkRef& ref, const Location& at) REQUIRES(mutex_) {
      const PackTally& tally = tally_[at.pack];
      if (tally.indexed == tally.whole) return Status();
      uint8_t block[kBlockSize];
      if (chunks_->ReadChunk(ref, at, block).ok()) return Status();
      if (at.in_frame()) {
        cut.Insert(ref, at);
      } else {
        report_->dangling.push_back(ref);
      }
      return Status();
    };
    SATCHEL_RETURN_IF_ERROR(chunks_->index()->ForEach(look));
    return cut.size() == 0 ? Status() : NameDangling(cut);
  }

  // What was in frames is named by the table pages that are here. What no page names nobody asks
  // for; it is told of as damage.
  Status NameDangling(const RefMap<Location>& cut) REQUIRES(mutex_) {
    RefSet named;
    Page page;
    for (const Location& at : pages_) {
      uint8_t block[kBlockSize];
      if (!chunks_->ReadBlock(at, block).ok()) continue;
      if (!IsPage(block)) continue;
      std::memcpy(page.refs, block + kPageHeaderSize, sizeof page.refs);
      for (const ChunkRef& ref : page.refs) {
        if (cut.Find(ref.Cut()) == nullptr || !named.Insert(ref.Cut(), {}).second) continue;
        report_->dangling.push_back(ref);
      }
    }
    for (const auto& [ref, at] : cut.entries()) {
      if (named.Find(ref) != nullptr) continue;
      report_->bad.push_back(
          {at.pack, at.offset, "chunk " + ref.IdHex() + "... is lost, and no table names it"});
    }
    return {};
  }

  Env* const env_;
  Chunks* const chunks_;
  const std::string folder_;
  const std::vector<std::pair<uint32_t, uint64_t>> packs_;  // number, bytes
  Workers workers_;
  std::atomic<size_t> next_{0};

  Mutex mutex_;
  VerifyReport* const report_ PT_GUARDED_BY(mutex_);
  std::map<uint32_t, PackTally> tally_ GUARDED_BY(mutex_);
  std::map<std::pair<uint32_t, uint64_t>, Garbage> garbage_ GUARDED_BY(mutex_);  // by where it is
  std::vector<Location> pages_ GUARDED_BY(mutex_);                               // whole ones
};

// One prune; runs alone on the store.
class Pruner {
 public:
  // As MakeHoles.
  using Punch = std::function<Status(uint32_t pack, PackUse* use, uint64_t* freed, uint64_t* left)>;

  Pruner(Chunks* chunks, const RefSet& keep, std::set<uint32_t> pinned, PruneReport* report)
      : chunks_(chunks), pinned_(std::move(pinned)), report_(report) {
    for (const auto& entry : keep.entries()) keep_.Insert(entry.ref.Cut(), {});
  }

  // Decides which packs are rewritten. `sizes`: bytes of each pack on disk.
  Status Choose(const std::map<uint32_t, uint64_t>& sizes) {
    SATCHEL_RETURN_IF_ERROR(SumLive());
    for (const auto& [pack, size] : sizes) {
      if (pinned_.count(pack) != 0) continue;
      if (IsWorthRewriting(pack, size)) rewrite_.insert(pack);
    }
    return {};
  }

  // What Run would do; the copies may share packs, so it is right but for their headers.
  Status Foretell(const std::map<uint32_t, uint64_t>& sizes) {
    for (const auto& [pack, size] : sizes) {
      report_->bytes_after += rewrite_.count(pack) != 0 ? live_[pack] : size;
    }
    return chunks_->index()->ForEach([&](const ChunkRef& ref, const Location&) {
      ++(Kept(ref) ? report_->kept : report_->removed);
      return Status();
    });
  }

  // `remove` is called for each pack as soon as nothing points to it: those of which nothing is
  // kept come first, and each of the others before the next one is copied, because there may be no
  // room for all of them. One for whose copy there is no room stays, and `punch` makes holes of its
  // garbage. When `progress` stops it, what is done stays done. kFull: no room came of it.
  Status Run(const ProgressFn& progress, const std::function<Status(uint32_t)>& remove,
             const Punch& punch) {
    if (rewrite_.count(chunks_->end().pack) != 0) SATCHEL_RETURN_IF_ERROR(chunks_->EndPack());
    std::map<uint32_t, std::vector<Index::Entry>> move;  // by pack
    SATCHEL_RETURN_IF_ERROR(Sweep(&move));
    for (const uint32_t pack : rewrite_) {
      if (move.count(pack) == 0) SATCHEL_RETURN_IF_ERROR(remove(pack));
    }
    uint64_t total = 0;
    for (const auto& [pack, entries] : move) total += entries.size();
    uint64_t done = 0;
    const auto report = [&](uint64_t more) {
      return !progress || progress((done + more) * kBlockSize, total * kBlockSize);
    };
    for (size_t before = 0; before != move.size();) {
      before = move.size();
      for (auto each = move.begin(); each != move.end();) {
        auto& [pack, entries] = *each;
        if (!chunks_->HasRoomFor(live_[pack])) {
          ++each;
          continue;
        }
        SATCHEL_RETURN_IF_ERROR(Move(&entries, report));
        SATCHEL_RETURN_IF_ERROR(remove(pack));
        done += entries.size();
        each = move.erase(each);
      }
    }
    return MakeRoomIn(move, punch);
  }

 private:
  // In the packs that cannot be copied.
  Status MakeRoomIn(const std::map<uint32_t, std::vector<Index::Entry>>& packs,
                    const Punch& punch) {
    bool in_vain = packs.size() == rewrite_.size();  // no other pack went
    bool full = false;
    for (const auto& [pack, entries] : packs) {
      PackUse use;  // the index has forgotten the others
      for (const Index::Entry& entry : entries) use.kept.push_back(entry.value);
      uint64_t left = 0;
      SATCHEL_RETURN_IF_ERROR(punch(pack, &use, &report_->bytes_in_holes, &left));
      full = full || IsWorthRewriting(pack, left);
    }
    in_vain = in_vain && report_->bytes_in_holes == 0;
    if (!full || !in_vain) return {};
    return Status::Make(Kind::kFull, "cannot give anything back to the disk",
                        "it has no room for a copy of the chunks of a pack that are kept");
  }

  // `size`: bytes of the pack on the disk.
  bool IsWorthRewriting(uint32_t pack, uint64_t size) {
    const uint64_t garbage = size - std::min(size, live_[pack] + kPackHeaderSize);
    return live_[pack] == 0 || garbage * 4 >= size;
  }

  bool Kept(const ChunkRef& ref) const { return keep_.Find(ref.Cut()) != nullptr; }

  // Bytes of each pack that are kept; of a frame, the part of its chunks that are.
  Status SumLive() {
    struct Slots {
      uint8_t kept = 0;
      uint8_t count = 0;
    };
    std::unordered_map<uint64_t, Slots> frames;
    SATCHEL_RETURN_IF_ERROR(chunks_->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
      if (at.in_frame()) {
        Location place = at;
        place.slot = 0;
        Slots& slots = frames[EncodeLocation(place)];
        slots.count = std::max<uint8_t>(slots.count, at.slot + 1);
        if (Kept(ref)) ++slots.kept;
      } else if (Kept(ref)) {
        live_[at.pack] += at.size();
      }
      return Status();
    }));
    for (const auto& [word, slots] : frames) {
      const Location at = DecodeLocation(word);
      live_[at.pack] += uint64_t{at.size()} * slots.kept / slots.count;
    }
    return {};
  }

  // The index forgets what is not kept. *move: what is, of packs that are rewritten.
  Status Sweep(std::map<uint32_t, std::vector<Index::Entry>>* move) {
    std::vector<ChunkRef> erase;
    SATCHEL_RETURN_IF_ERROR(chunks_->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
      if (Kept(ref)) {
        ++report_->kept;
        if (rewrite_.count(at.pack) != 0) (*move)[at.pack].push_back({ref, at});
        return Status();
      }
      ++report_->removed;
      erase.push_back(ref);
      return Status();
    }));
    for (size_t i = 0; i < erase.size(); i += kIndexBatch) {
      const auto begin = erase.begin() + static_cast<ptrdiff_t>(i);
      const auto end =
          erase.begin() + static_cast<ptrdiff_t>(std::min(i + kIndexBatch, erase.size()));
      SATCHEL_RETURN_IF_ERROR(chunks_->Erase({begin, end}));
    }
    return {};
  }

  // All of one pack, in pieces that do not divide a frame. Durable on return.
  Status Move(std::vector<Index::Entry>* entries, const std::function<bool(uint64_t)>& report) {
    std::sort(entries->begin(), entries->end(),
              [](const auto& a, const auto& b) { return a.value.offset < b.value.offset; });
    for (size_t i = 0; i < entries->size();) {
      if (!report(i)) return Status::Make(Kind::kCancelled, "stopped by the caller");
      size_t end = std::min(i + kMovePiece, entries->size());
      while (end < entries->size() && (*entries)[end].value.SamePlace((*entries)[end - 1].value)) {
        ++end;
      }
      const auto begin = entries->begin() + static_cast<ptrdiff_t>(i);
      std::vector<ChunkRef> lost;
      SATCHEL_RETURN_IF_ERROR(
          chunks_->Move({begin, entries->begin() + static_cast<ptrdiff_t>(end)}, &lost));
      SATCHEL_RETURN_IF_ERROR(chunks_->Erase(lost));
      i = end;
    }
    return {};
  }

  static constexpr size_t kMovePiece = 2048;  // chunks

  Chunks* const chunks_;
  RefSet keep_;  // cut
  const std::set<uint32_t> pinned_;
  PruneReport* const report_;
  std::map<uint32_t, uint64_t> live_;  // bytes of kept records by pack
  std::set<uint32_t> rewrite_;
};

void Pin(const BlockMap& map, std::set<uint32_t>* pinned) {
  for (uint64_t i = 0; i < map.blocks(); ++i) {
    const BlockEntry entry = map.Load(i);
    if (entry.state == BlockState::kPacked) pinned->insert(entry.at.pack);
  }
}

}  // namespace

void Store::PinPacks(std::set<uint32_t>* pinned) {
  const MutexLock lock(&maps_mutex_);
  for (const auto& handle : maps_) {
    const MutexLock held(&handle->mutex);
    if (handle->map != nullptr) Pin(*handle->map, pinned);
  }
}

Status Store::PackSizes(std::map<uint32_t, uint64_t>* sizes) {
  std::vector<uint32_t> packs;
  SATCHEL_RETURN_IF_ERROR(ListPacks(&packs));
  for (const uint32_t pack : packs) {
    if (pack > seen_.pack) continue;
    std::unique_ptr<File> file;
    uint64_t size = 0;
    SATCHEL_RETURN_IF_ERROR(env_->Open(PackPath(pack), OpenMode::kRead, &file));
    SATCHEL_RETURN_IF_ERROR(file->Size(&size));
    (*sizes)[pack] = pack == seen_.pack ? std::min(size, seen_.offset) : size;
  }
  return {};
}

Status Store::Verify(const ProgressFn& progress, VerifyReport* report) {
  return WithChunks([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    std::map<uint32_t, uint64_t> sizes;
    SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
    uint64_t total = 0;
    for (const auto& [pack, size] : sizes) total += size;
    return Verifier(env_, chunks, PacksPath(), {sizes.begin(), sizes.end()}, total, report)
        .Run(progress);
  });
}

Status Store::RebuildIndex(const ProgressFn& progress) {
  ++wanting_alone_;
  const AloneLock gate(&gate_);
  --wanting_alone_;
  PackPosition acknowledged;
  bool known = false;
  if (chunks_ != nullptr) {
    (void)chunks_->Flush();
    if (!chunks_->index()->End(&acknowledged, &known).ok()) known = false;
  }
  chunks_.reset();
  SATCHEL_RETURN_IF_ERROR(Index::Destroy(env_, IndexPath()));
  return Load(progress, known ? &acknowledged : nullptr);
}

Status Store::Prune(const std::vector<TableRoot>& keep, const std::vector<const BlockMap*>& maps,
                    bool partial, bool dry_run, const ProgressFn& progress, PruneReport* report) {
  ++wanting_alone_;
  const AloneLock gate(&gate_);
  --wanting_alone_;
  if (chunks_ == nullptr) return Status::Make(Kind::kState, "store " + path_ + " has no index");
  if (progress && !progress(0, 0)) return Status::Make(Kind::kCancelled, "stopped by the caller");
  SATCHEL_RETURN_IF_ERROR(chunks_->Sync());
  RefSet reachable;
  std::vector<TableRoot> young;
  std::vector<TableRoot> attached;
  in_use_.Collect(&young, &attached);
  SATCHEL_RETURN_IF_ERROR(CollectReachable(chunks_.get(), keep, partial, &reachable));
  SATCHEL_RETURN_IF_ERROR(CollectReachable(chunks_.get(), young, partial, &reachable));
  SATCHEL_RETURN_IF_ERROR(CollectReachable(chunks_.get(), attached, true, &reachable));
  std::set<uint32_t> pinned;
  for (const BlockMap* map : maps) Pin(*map, &pinned);
  PinPacks(&pinned);

  std::map<uint32_t, uint64_t> sizes;
  SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
  for (const auto& [pack, size] : sizes) report->bytes_before += size;
  Pruner pruner(chunks_.get(), reachable, std::move(pinned), report);
  SATCHEL_RETURN_IF_ERROR(pruner.Choose(sizes));
  if (dry_run) return pruner.Foretell(sizes);
  const auto remove = [this, chunks = chunks_.get()](uint32_t pack) {
    chunks->reader()->Forget(pack);
    return env_->Remove(PackPath(pack));
  };
  const auto punch = [this, chunks = chunks_.get(), &sizes](uint32_t pack, PackUse* use,
                                                            uint64_t* freed, uint64_t* left) {
    chunks->reader()->Forget(pack);
    std::unique_ptr<File> file;
    SATCHEL_RETURN_IF_ERROR(env_->Open(PackPath(pack), OpenMode::kReadWrite, &file));
    return MakeHoles(file.get(), use, sizes[pack], freed, left);
  };
  SATCHEL_RETURN_IF_ERROR(pruner.Run(progress, remove, punch));
  SATCHEL_RETURN_IF_ERROR(env_->SyncDir(PacksPath()));

  sizes.clear();
  SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
  for (const auto& [pack, size] : sizes) report->bytes_after += size;
  report->bytes_after -= std::min(report->bytes_after, report->bytes_in_holes);
  if (progress) (void)progress(report->bytes_before, report->bytes_before);
  return {};
}

Status Store::Rewrite(const std::vector<uint32_t>& packs) {
  ++wanting_alone_;
  const AloneLock gate(&gate_);
  --wanting_alone_;
  if (chunks_ == nullptr) return Status::Make(Kind::kState, "store " + path_ + " has no index");
  SATCHEL_RETURN_IF_ERROR(chunks_->Sync());
  std::set<uint32_t> pinned;
  PinPacks(&pinned);
  std::map<uint32_t, uint64_t> sizes;
  SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
  std::set<uint32_t> rewrite;
  for (const uint32_t pack : packs) {
    if (sizes.count(pack) != 0 && pinned.count(pack) == 0) rewrite.insert(pack);
  }
  if (rewrite.count(chunks_->end().pack) != 0) SATCHEL_RETURN_IF_ERROR(chunks_->EndPack());
  std::vector<Index::Entry> move;
  SATCHEL_RETURN_IF_ERROR(chunks_->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
    if (rewrite.count(at.pack) != 0) move.push_back({ref, at});
    return Status();
  }));
  std::sort(move.begin(), move.end(), [](const auto& a, const auto& b) {
    return std::pair(a.value.pack, a.value.offset) < std::pair(b.value.pack, b.value.offset);
  });
  std::vector<ChunkRef> lost;
  SATCHEL_RETURN_IF_ERROR(chunks_->Move(move, &lost));
  SATCHEL_RETURN_IF_ERROR(chunks_->Erase(lost));
  for (const uint32_t pack : rewrite) {
    chunks_->reader()->Forget(pack);
    SATCHEL_RETURN_IF_ERROR(env_->Remove(PackPath(pack)));
  }
  return env_->SyncDir(PacksPath());
}

Status Store::Stats(StoreStats* stats) {
  return WithChunks([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    ChunkRef last = kZeroRef;  // with its place; the names of two that may share it are read
    Location last_at{};
    SATCHEL_RETURN_IF_ERROR(chunks->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
      ++stats->chunks;
      // A frame counts with its first chunk.
      if (!at.in_frame() || at.slot == 0) stats->live_bytes += at.size();
      if (at.in_frame()) ++stats->settled;
      ChunkRef whole = ref;
      if (std::equal(ref.id(), ref.id() + kCutIdSize, last.id())) {
        if (at.in_frame()) (void)chunks->NameAt(at, &whole);
        if (last_at.in_frame()) (void)chunks->NameAt(last_at, &last);
        if (whole.IsNamesakeOf(last)) ++stats->variants;
      }
      last = whole;
      last_at = at;
      return Status();
    }));
    std::map<uint32_t, uint64_t> sizes;
    SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
    stats->packs = sizes.size();
    for (const auto& [pack, size] : sizes) stats->pack_bytes += size;
    stats->damaged = chunks->damaged();
    return Status();
  });
}

}  // namespace satchel
