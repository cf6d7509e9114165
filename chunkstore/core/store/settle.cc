// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/store/settle.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/format/table.h"
#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/os/workers.h"
#include "chunkstore/core/store/store.h"

namespace satchel {
namespace {

constexpr auto kPause = std::chrono::milliseconds(10);

// In the background a pack of which less than this part is records stays as it is.
constexpr uint64_t kLeastPart = 16;

constexpr int kTries = 2;

// A thread that takes of processor and disk what nobody else wants. Its nice value does that only
// beside threads of its own session or control group: a kernel that shares processors out among
// these gives each as much as the others, so a guest would have half of one. So the thread looks
// whether it had to wait for the processor, and then is away for a while (Douceur and Bolosky,
// "Progress-based regulation of low-importance processes", SOSP 1999).
class Deference {
 public:
  // For the calling thread. Where a priority is refused that does no harm.
  Deference() {
    constexpr int kThisThread = 0;
    constexpr int kWhoProcess = 1;
    constexpr int kIdleClass = 3 << 13;
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
    (void)syscall(SYS_ioprio_set, kWhoProcess, kThisThread, kIdleClass);
  }

  // Around what only computes.
  void Begin() {
    began_ = Read(CLOCK_MONOTONIC);
    began_used_ = Read(CLOCK_THREAD_CPUTIME_ID);
  }
  void End() {
    used_ += Read(CLOCK_THREAD_CPUTIME_ID) - began_used_;
    spent_ += Read(CLOCK_MONOTONIC) - began_;
  }

  // How long the thread is to do nothing now.
  std::chrono::nanoseconds Away() {
    if (used_ < kLook) return Duration(0);
    const bool wanted = spent_ - used_ > used_ / kMostWaited;
    const auto away = wanted ? std::min(kAway * used_, kLongestAway) : Duration(0);
    used_ = spent_ = Duration(0);
    return away;
  }

 private:
  using Duration = std::chrono::nanoseconds;

  // Some turns of the scheduler: a thread that was away has its first one at once.
  static constexpr Duration kLook = std::chrono::milliseconds(20);
  static constexpr int kMostWaited = 4;  // a quarter of the time that it computed
  static constexpr int kAway = 31;       // so it has a 32nd of a processor that is wanted
  static constexpr Duration kLongestAway = std::chrono::seconds(2);

  static Duration Read(clockid_t clock) {
    timespec now{};
    (void)clock_gettime(clock, &now);
    return std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec);
  }

  Duration began_{0}, began_used_{0};
  Duration spent_{0}, used_{0};  // since the last look
};

// One call of MakeFrames.
class FrameJob {
 public:
  FrameJob(Chunks* chunks, const FramePlan& plan, SettleReport* report)
      : chunks_(chunks), plan_(plan), workers_(Bytes(plan)), report_(report) {}

  Status Run(const ProgressFn& progress) {
    return workers_.Run([this] { return Work(); }, progress);
  }

  bool complete() {
    const MutexLock lock(&mutex_);
    return AllTaken();
  }

 private:
  struct NewFrame {
    uint64_t ticket = 0;
    std::string frame;
    std::vector<Index::Entry> entries;  // those that are in it, by slot
    uint64_t damaged = 0;
    uint64_t bytes = 0;  // of what was taken, as it was stored
  };

  static uint64_t Bytes(const FramePlan& plan) {
    uint64_t bytes = 0;
    for (const auto& entry : plan.entries) bytes += entry.value.size();
    return bytes;
  }

  Status Work() {
    std::optional<Deference> deference;
    if (plan_.options.background) deference.emplace();
    FrameEncoder encoder(plan_.options.level);
    std::vector<uint8_t> blocks(kMaxFrameChunks * kBlockSize);
    for (;;) {
      if (deference) Wait(deference->Away());
      const auto made = std::make_shared<NewFrame>();
      if (!Take(made.get()) || !workers_.WaitForRoom(made->ticket)) return {};
      SATCHEL_RETURN_IF_ERROR(Read(blocks.data(), made.get()));
      const auto count = static_cast<unsigned>(made->entries.size());
      if (deference) deference->Begin();
      if (count > 0) {
        SATCHEL_RETURN_IF_ERROR(encoder.Append(plan_.codec, blocks.data(), count, &made->frame));
      }
      if (deference) deference->End();
      const auto deliver = [this, made] { return Deliver(made.get()); };
      SATCHEL_RETURN_IF_ERROR(workers_.InOrder(made->ticket, deliver));
    }
  }

  // As long as nobody wants it to end.
  void Wait(std::chrono::nanoseconds left) {
    for (; left > left.zero(); left -= kPause) {
      if (workers_.stopped() || plan_.turn() == Turn::kEnd) return;
      std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kPause));
    }
  }

  bool AllTaken() const REQUIRES(mutex_) { return next_ >= plan_.entries.size(); }

  // The entries of the next frame; false when there is no more to do.
  bool Take(NewFrame* made) {
    const MutexLock lock(&mutex_);
    for (;;) {
      if (workers_.stopped() || AllTaken()) return false;
      const Turn turn = plan_.turn();
      if (turn == Turn::kGo) break;
      if (turn == Turn::kEnd) return false;
      std::this_thread::sleep_for(kPause);
    }
    made->ticket = next_ticket_++;
    const unsigned most = plan_.codec == FrameCodec::kPages ? kPageFrameChunks : kFrameChunks;
    const size_t end = std::min(next_ + most, plan_.entries.size());
    made->entries.assign(plan_.entries.begin() + static_cast<ptrdiff_t>(next_),
                         plan_.entries.begin() + static_cast<ptrdiff_t>(end));
    next_ = end;
    return true;
  }

  // Reads the chunks to `blocks`, without those that are lost.
  Status Read(uint8_t* blocks, NewFrame* made) {
    std::vector<Index::Entry> here;
    for (const auto& entry : made->entries) {
      made->bytes += entry.value.size();
      const Status status = chunks_->ReadBlock(entry.value, blocks + here.size() * kBlockSize);
      if (!status.ok() && !IsLost(status)) return status;
      if (status.ok()) here.push_back(entry);
    }
    ChunkRef names[kMaxFrameChunks];
    NameBlocks(blocks, here.size(), names);
    size_t kept = 0;
    for (size_t i = 0; i < here.size(); ++i) {
      if (!here[i].ref.Names(names[i])) continue;
      if (kept != i) std::memcpy(blocks + kept * kBlockSize, blocks + i * kBlockSize, kBlockSize);
      here[kept++] = {names[i], here[i].value};
    }
    made->damaged = made->entries.size() - kept;
    here.resize(kept);
    made->entries = std::move(here);
    return {};
  }

  // Called for one frame at a time, in the order in which they were taken.
  Status Deliver(NewFrame* made) {
    report_->damaged += made->damaged;
    workers_.Done(made->bytes);
    if (made->entries.empty()) return {};
    ChunkRef refs[kMaxFrameChunks];
    const auto count = static_cast<unsigned>(made->entries.size());
    for (unsigned i = 0; i < count; ++i) refs[i] = made->entries[i].ref;
    Location at;
    SATCHEL_RETURN_IF_ERROR(chunks_->AppendFrame(std::move(made->frame), refs, count, &at));
    report_->chunks += count;
    return {};
  }

  Chunks* const chunks_;
  const FramePlan& plan_;
  Workers workers_;

  Mutex mutex_;
  size_t next_ GUARDED_BY(mutex_) = 0;
  uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;

  SettleReport* const report_;  // used by whoever has the turn
};

// The smallest reference in a page.
uint64_t PageKey(const uint8_t* block) {
  uint64_t key = UINT64_MAX;
  for (uint32_t i = 0; i < kPageFanout; ++i) {
    uint64_t word;
    std::memcpy(&word, block + kPageHeaderSize + i * kChunkRefSize, sizeof word);
    if (word != 0) key = std::min(key, word);
  }
  return key;
}

}  // namespace

Status MakeFrames(Chunks* chunks, const FramePlan& plan, const ProgressFn& progress,
                  SettleReport* report, bool* complete) {
  FrameJob job(chunks, plan, report);
  SATCHEL_RETURN_IF_ERROR(job.Run(progress));
  *complete = job.complete();
  return {};
}

Status EntriesOf(Index* index, uint32_t pack, std::vector<Index::Entry>* entries) {
  entries->clear();
  SATCHEL_RETURN_IF_ERROR(index->ForEach([&](const ChunkRef& ref, const Location& at) {
    if (at.pack == pack) entries->push_back({ref, at});
    return Status();
  }));
  std::sort(entries->begin(), entries->end(), [](const auto& a, const auto& b) {
    return std::tie(a.value.offset, a.value.slot) < std::tie(b.value.offset, b.value.slot);
  });
  return {};
}

Status FindPages(Chunks* chunks, const std::vector<Index::Entry>& entries,
                 std::vector<PageEntry>* pages) {
  uint8_t block[kBlockSize];
  for (const auto& entry : entries) {
    if (entry.value.in_frame()) continue;
    const Status status = chunks->ReadBlock(entry.value, block);
    if (!status.ok() && !IsLost(status)) return status;
    if (status.ok() && IsPage(block)) pages->push_back({PageKey(block), entry});
  }
  return {};
}

// One call of Store::Settle.
class Store::Settling {
 public:
  Settling(Store* store, const SettleOptions& options, ProgressFn progress, SettleReport* report)
      : store_(store), options_(options), progress_(std::move(progress)), report_(report) {}

  Status Run() {
    SATCHEL_RETURN_IF_ERROR(Sum(&report_->bytes_before));
    for (bool complete = false; !complete;) {
      SATCHEL_RETURN_IF_ERROR(WaitForTurn());
      SATCHEL_RETURN_IF_ERROR(store_->WithChunks([&](Chunks* chunks) { return Plan(chunks); }));
      SATCHEL_RETURN_IF_ERROR(SettlePages(&complete));
      while (complete && !packs_.empty()) {
        SATCHEL_RETURN_IF_ERROR(SettlePack(packs_.front(), &complete));
        if (!complete) break;
        SATCHEL_RETURN_IF_ERROR(Finish(packs_.front()));
        tried_.insert(packs_.front());
        packs_.erase(packs_.begin());
      }
    }
    SATCHEL_RETURN_IF_ERROR(store_->WithChunks([&](Chunks* chunks) { return End(chunks); }));
    if (progress_) (void)progress_(done_, done_);
    return Sum(&report_->bytes_after);
  }

 private:
  struct Tally {
    uint64_t records = 0;  // bytes of records that the index points to
    uint64_t frames = 0;   // bytes of frames
  };

  Status Sum(uint64_t* bytes) {
    std::map<uint32_t, uint64_t> sizes;
    SATCHEL_RETURN_IF_ERROR(store_->WithChunks([&](Chunks*) { return store_->PackSizes(&sizes); }));
    for (const auto& [pack, size] : sizes) *bytes += size;
    return {};
  }

  Status End(Chunks* chunks) {
    if (report_->chunks == 0) return {};
    SATCHEL_RETURN_IF_ERROR(chunks->EndPack());  // what is put next does not mix with frames
    return chunks->index()->Compact();
  }

  // Chooses the packs: those with records, and those that nothing points into.
  Status Plan(Chunks* chunks) {
    packs_.clear();
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    std::map<uint32_t, uint64_t> sizes;
    SATCHEL_RETURN_IF_ERROR(store_->PackSizes(&sizes));
    std::map<uint32_t, Tally> tallies;
    SATCHEL_RETURN_IF_ERROR(chunks->index()->ForEach([&](const ChunkRef&, const Location& at) {
      Tally& tally = tallies[at.pack];
      if (!at.in_frame()) tally.records += at.size();
      if (at.in_frame() && at.slot == 0) tally.frames += at.size();
      return Status();
    }));
    total_ = done_;
    for (const auto& [pack, size] : sizes) {
      const Tally& tally = tallies[pack];
      const bool empty = tally.records + tally.frames == 0 && size > kPackHeaderSize;
      const bool much = tally.records * kLeastPart >= tally.frames;
      const bool worth = tally.records > 0 && (much || !options_.background);
      if (tried_.count(pack) != 0 || !(empty || worth)) continue;
      if (pack == chunks->end().pack) SATCHEL_RETURN_IF_ERROR(chunks->EndPack());
      packs_.push_back(pack);
      total_ += tally.records + tally.frames;
    }
    return {};
  }

  Status SettlePages(bool* complete) {
    return store_->WithChunks([&](Chunks* chunks) {
      std::vector<PageEntry> pages;
      std::vector<Index::Entry> entries;
      for (const uint32_t pack : packs_) {
        SATCHEL_RETURN_IF_ERROR(EntriesOf(chunks->index(), pack, &entries));
        SATCHEL_RETURN_IF_ERROR(FindPages(chunks, entries, &pages));
        if (progress_ && !progress_(done_, total_)) return Cancelled();
      }
      std::sort(pages.begin(), pages.end(),
                [](const PageEntry& a, const PageEntry& b) { return a.key < b.key; });
      FramePlan plan = NewPlan(FrameCodec::kPages);
      for (const PageEntry& page : pages) plan.entries.push_back(page.entry);
      return Make(chunks, plan, complete);
    });
  }

  Status SettlePack(uint32_t pack, bool* complete) {
    return store_->WithChunks([&](Chunks* chunks) {
      FramePlan plan = NewPlan(FrameCodec::kBlocks);
      SATCHEL_RETURN_IF_ERROR(EntriesOf(chunks->index(), pack, &plan.entries));
      return Make(chunks, plan, complete);
    });
  }

  FramePlan NewPlan(FrameCodec codec) {
    return FramePlan{{}, codec, [this] { return store_->SettleTurn(); }, options_};
  }

  Status Make(Chunks* chunks, const FramePlan& plan, bool* complete) {
    uint64_t stored = 0;
    for (const auto& entry : plan.entries) stored += entry.value.size();
    ProgressFn progress;
    if (progress_) {
      progress = [this](uint64_t done, uint64_t) {
        return progress_(std::min(done_ + done, total_), total_);
      };
    }
    SATCHEL_RETURN_IF_ERROR(MakeFrames(chunks, plan, progress, report_, complete));
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    if (*complete) done_ += stored;
    return {};
  }

  // Removes a pack that the index has nothing in, unless a block map points there. A call that
  // looked a chunk up before it moved may set an entry to its old place after the first try, but
  // none does after the second.
  Status Finish(uint32_t pack) {
    bool left = false;
    for (int i = 0; i < kTries && !left; ++i) {
      Moves moves;
      bool settled = true;
      SATCHEL_RETURN_IF_ERROR(store_->WithChunks(
          [&](Chunks* chunks) { return Trace(chunks, pack, &moves, &settled); }));
      if (!settled) return {};  // damaged; verify names them
      SATCHEL_RETURN_IF_ERROR(Leave(pack, moves, &left));
    }
    if (!left) {
      ++report_->pinned;
      return {};
    }
    return store_->env_->SyncDir(store_->PacksPath());
  }

  // Where the chunks are now that block maps look for in `pack`; *settled: the index looks for none
  // there.
  Status Trace(Chunks* chunks, uint32_t pack, Moves* moves, bool* settled) {
    std::vector<Index::Entry> entries;
    SATCHEL_RETURN_IF_ERROR(EntriesOf(chunks->index(), pack, &entries));
    *settled = entries.empty();
    std::vector<Location> wanted;
    if (*settled) store_->FindInMaps(pack, &wanted);
    for (const Location& old : wanted) {
      ChunkRef ref;
      const Status named = chunks->NameAt(old, &ref);
      if (IsLost(named)) continue;
      SATCHEL_RETURN_IF_ERROR(named);
      Location now;
      bool found = false;
      SATCHEL_RETURN_IF_ERROR(chunks->index()->Get(ref, &now, &found));
      if (found) (*moves)[EncodeLocation(old)] = EncodeLocation(now);
    }
    return {};
  }

  // *left: nothing pointed into the pack any more, and it is gone. Others list packs and use the
  // list behind the gate, so none of them looks for it.
  Status Leave(uint32_t pack, const Moves& moves, bool* left) {
    while (!store_->gate_.TryLock()) {
      if (progress_ && !progress_(done_, total_)) return Cancelled();
      std::this_thread::sleep_for(kPause);
    }
    *left = store_->chunks_ != nullptr && store_->RepointMaps(pack, moves) == 0;
    Status removed;
    if (*left) {
      store_->chunks_->LeavePack(pack);
      removed = store_->env_->Remove(store_->PackPath(pack));
    }
    store_->gate_.Unlock();
    return removed.Is(Kind::kNotFound) ? Status() : removed;
  }

  // Lets somebody who wants the store alone have it.
  Status WaitForTurn() {
    while (store_->SettleTurn() == Turn::kEnd) {
      if (progress_ && !progress_(done_, total_)) return Cancelled();
      std::this_thread::sleep_for(kPause);
    }
    return {};
  }

  static Status Cancelled() { return Status::Make(Kind::kCancelled, "stopped by the caller"); }

  Store* const store_;
  const SettleOptions options_;
  const ProgressFn progress_;
  SettleReport* const report_;
  std::vector<uint32_t> packs_;  // to be settled, in order
  std::set<uint32_t> tried_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

Status Store::Settle(const SettleOptions& options, const ProgressFn& progress,
                     SettleReport* report) {
  const MutexLock one_at_a_time(&settle_mutex_);
  return Settling(this, options, progress, report).Run();
}

Turn Store::SettleTurn() const {
  if (wanting_alone_ > 0) return Turn::kEnd;
  return foreground_ > 0 ? Turn::kWait : Turn::kGo;
}

}  // namespace satchel
