// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Writing to a medium: packs, files, the commit, and removing what older generations leave.
//
// Every step is durable before the next begins. Removing goes the other way: the commit file, a
// sync, then what it named, a sync. What each step is made of is in fat_order.h.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <utility>

#include "chunkstore/core/format/chunk_status.h"
#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/media/fat_order.h"
#include "chunkstore/core/media/media.h"

namespace satchel {
namespace {

// Kept free beyond what is counted: clusters that files do not fill, the commit, the log.
constexpr uint64_t kReserve = uint64_t{1} << 20;

// Of what is copied, that part is counted for the last clusters of packs and indexes, which they do
// not fill: two of at most 128 KiB for each pack.
constexpr uint64_t kClusterShare = 256;

// Packs below that size are copied together once there are so many of them.
constexpr uint64_t kSmallPack = uint64_t{4} << 20;
constexpr size_t kManySmall = 16;

}  // namespace

// A pack on its way to the medium. Without its index it does not count.
class Media::PackFile {
 public:
  explicit PackFile(Media* media) REQUIRES(media->write_mutex_) : media_(media) {}

  ~PackFile() {
    if (file_ == nullptr) return;
    (void)media_->env_->Remove(media_->PathOf(pack_, ".pack"));
    (void)media_->env_->SyncDir(media_->PacksPath());
  }
  PackFile(const PackFile&) = delete;
  PackFile& operator=(const PackFile&) = delete;

  // Closes the pack first when the record does not fit.
  Status Append(const RecordView& record, const uint8_t* data) {
    if (file_ != nullptr && size_ + record.size() > kMediaPackLimit) {
      SATCHEL_RETURN_IF_ERROR(Close());
    }
    if (file_ == nullptr) SATCHEL_RETURN_IF_ERROR(Start());
    entries_.push_back({record.ref, static_cast<uint32_t>(size_), record.length});
    buffer_.append(reinterpret_cast<const char*>(data), record.size());
    size_ += record.size();
    return buffer_.size() < kBufferSize ? Status() : Flush();
  }

  // The pack is durable, its index beside it, and its chunks can be asked for.
  Status Close() {
    media_->write_mutex_.AssertHeld();
    if (file_ == nullptr) return {};
    SATCHEL_RETURN_IF_ERROR(Flush());
    SATCHEL_RETURN_IF_ERROR(SyncNew(media_->env_, media_->PacksPath(), file_.get()));
    const std::string index = EncodeMediaIndex(&entries_, size_);
    SATCHEL_RETURN_IF_ERROR(WriteNew(media_->env_, media_->PathOf(pack_, ".idx"), index));
    file_.reset();
    written_ += size_ + index.size();
    closed_.insert(pack_);
    {
      const MutexLock lock(&media_->mutex_);
      media_->AddEntries(pack_, size_, entries_);
    }
    entries_.clear();
    return {};
  }

  uint64_t written() const { return written_; }  // bytes of closed packs and their indexes
  const std::set<uint32_t>& closed() const { return closed_; }

 private:
  static constexpr size_t kBufferSize = 1 << 20;
  static constexpr uint64_t kInFlight = 16 << 20;  // as much keeps any medium at work

  Status Start() {
    SATCHEL_RETURN_IF_ERROR(media_->NextPack(&pack_));
    SATCHEL_RETURN_IF_ERROR(
        media_->env_->Open(media_->PathOf(pack_, ".pack"), OpenMode::kCreate, &file_));
    buffer_.assign(kPackHeaderSize, '\0');
    std::memcpy(buffer_.data(), kPackMagic, sizeof kPackMagic);
    std::memcpy(buffer_.data() + sizeof kPackMagic, &kPackVersion, sizeof kPackVersion);
    flushed_ = 0;
    size_ = kPackHeaderSize;
    return {};
  }

  Status Flush() {
    SATCHEL_RETURN_IF_ERROR(file_->WriteAt(flushed_, buffer_.data(), buffer_.size()));
    file_->StartWriting(flushed_, buffer_.size(), kInFlight);
    flushed_ += buffer_.size();
    buffer_.clear();
    return {};
  }

  Media* const media_;
  uint32_t pack_ = 0;
  std::unique_ptr<File> file_;
  std::string buffer_;
  uint64_t flushed_ = 0;
  uint64_t size_ = 0;
  uint64_t written_ = 0;
  std::set<uint32_t> closed_;
  std::vector<MediaIndexEntry> entries_;
};

// One Add: what to copy, whether it fits, the copying. Records are taken from the store as it sends
// them to others.
class Media::Adder {
 public:
  Adder(Media* media, RecordSource* from, MediaNotes* notes) REQUIRES(media->write_mutex_)
      : media_(media), from_(from), notes_(notes) {}

  // kMissing if the store lacks one.
  Status Plan(const ChunkRef* refs, size_t n, size_t again) {
    RefSet lacking;
    {
      const MutexLock lock(&media_->mutex_);
      for (size_t i = 0; i < n; ++i) {
        if (refs[i].IsZero()) continue;
        const Location* at = media_->places_.Find(refs[i]);
        if (at == nullptr || i < again) lacking.Insert(refs[i], {});
        if (at != nullptr) in_use_.insert(at->pack);
      }
    }
    plan_.reserve(lacking.size());
    for (const auto& entry : lacking.entries()) {
      bool maybe = false;
      Status status = from_->MaybeHere(&entry.ref, 1, &maybe);
      if (status.ok() && !maybe) status = MissingChunk(entry.ref, "the store lacks it");
      SATCHEL_RETURN_IF_ERROR(OfStore(std::move(status)));
      plan_.push_back(entry.ref);
    }
    return {};
  }

  // How much shorter records get is measured only where that decides.
  Status MakeRoom() {
    media_->write_mutex_.AssertHeld();
    if (plan_.empty()) return {};
    uint64_t free = 0;
    SATCHEL_RETURN_IF_ERROR(media_->FreeBytes(&free));
    uint64_t need = Need(plan_.size() * uint64_t{kMaxRecordSize});
    if (need > free) {
      uint64_t exact = 0;
      SATCHEL_RETURN_IF_ERROR(ForEachRecord([&](const RecordView& record, const uint8_t*) {
        exact += record.size();
        return Status();
      }));
      need = Need(exact);
      spare_ = true;
    }
    if (need <= free) return {};
    if (need > free + Stale()) {
      return Status::Make(
          Kind::kFull, "cannot copy to the medium at " + media_->root_,
          std::to_string(need) + " bytes are needed and " + std::to_string(free) + " are free");
    }
    uint64_t freed = 0;
    return media_->DropGenerations(1, in_use_, &freed);
  }

  Status Copy(const ProgressFn& progress, uint64_t* written) {
    media_->write_mutex_.AssertHeld();
    PackFile pack(media_);
    uint64_t done = 0;
    uint64_t reported = 0;
    const uint64_t total = plan_.size() * uint64_t{kBlockSize};
    Status status = ForEachRecord([&](const RecordView& record, const uint8_t* data) {
      SATCHEL_RETURN_IF_ERROR(pack.Append(record, data));
      done += kBlockSize;
      if (!progress || done - reported < kReportEvery) return Status();
      reported = done;
      return progress(done, total) ? Status() : Status::Make(Kind::kCancelled, "it was stopped");
    });
    if (status.ok() || status.Is(Kind::kCancelled)) {
      const Status closed = pack.Close();
      if (status.ok()) status = closed;
    }
    *written = pack.written();
    if (status.ok() && progress) (void)progress(total, total);
    return status;
  }

 private:
  static constexpr uint64_t kReportEvery = 1 << 20;
  static constexpr size_t kTogether = 256;                          // chunks in a batch
  static constexpr size_t kAhead = 8;                               // batches
  static constexpr int kLevels[] = {RecordSource::kSentLevel, -1};  // of zstd

  uint64_t Need(uint64_t bytes) const {
    bytes += plan_.size() * kMediaIndexEntrySize;
    return media_->env_->Room(bytes) + bytes / kClusterShare + kReserve;
  }

  // Bytes that the generations before the newest whole one could give back.
  uint64_t Stale() {
    uint64_t bytes = 0;
    std::set<uint32_t> kept = in_use_;
    for (const MediaGeneration& generation : media_->generations()) {
      if (!generation.why.empty()) continue;
      for (const MediaPack& pack : generation.commit.packs) kept.insert(pack.number);
      break;
    }
    for (const auto& [pack, info] : media_->packs()) {
      if (kept.count(pack) == 0) bytes += info.size;
    }
    return bytes;
  }

  struct Batch {
    Status status;
    std::string records;
  };

  // Batches are made while those before them are written. Whenever the medium has to wait for one,
  // the next ones are compressed less, and whenever not, more: so neither waits for long, and a
  // slow medium gets the fewest bytes. Without a policy std::async does the work in get() where
  // there are no threads left, and throws nothing. The medium must not get what the store has lost.
  template <typename Visit>
  Status ForEachRecord(const Visit& visit) {
    std::deque<std::future<Batch>> ahead;
    size_t next = 0;
    size_t level = 0;
    for (size_t start = 0; start < plan_.size(); start += kTogether) {
      for (; next < plan_.size() && ahead.size() <= kAhead; next += kTogether) {
        ahead.push_back(std::async([this, next, level] { return Take(next, kLevels[level]); }));
      }
      const bool waits =
          ahead.front().wait_for(std::chrono::seconds(0)) != std::future_status::ready;
      if (!waits && level > 0) --level;
      if (waits && !spare_ && level + 1 < std::size(kLevels)) ++level;
      const Batch batch = ahead.front().get();
      ahead.pop_front();
      SATCHEL_RETURN_IF_ERROR(OfStore(batch.status));
      const auto* at = reinterpret_cast<const uint8_t*>(batch.records.data());
      size_t left = batch.records.size();
      for (size_t i = start; i < std::min(start + kTogether, plan_.size()); ++i) {
        RecordView record;
        if (!ParseRecord(at, left, &record).ok() || record.ref != plan_[i]) {
          return OfStore(InvalidChunk(plan_[i], "its record in the store is damaged"));
        }
        SATCHEL_RETURN_IF_ERROR(visit(record, at));
        at += record.size();
        left -= record.size();
      }
    }
    return {};
  }

  Batch Take(size_t start, int level) {
    Batch batch;
    const size_t count = std::min(kTogether, plan_.size() - start);
    const RecordSource::Sending sending{level, BulkReader::CacheUse::kOnce};
    batch.status = from_->Records(&plan_[start], count, &batch.records, sending);
    return batch;
  }

  Status OfStore(Status status) {
    if (!status.ok()) notes_->store_failed = true;
    return status;
  }

  Media* const media_;
  RecordSource* const from_;
  MediaNotes* const notes_;
  std::vector<ChunkRef> plan_;
  std::set<uint32_t> in_use_;  // packs that have wanted chunks
  bool spare_ = false;         // room is short: nothing is compressed less
};

Status Media::Pieces(const std::vector<TableRoot>& roots, uint64_t* chunks, uint64_t* pieces) {
  RefSet needed;
  SATCHEL_RETURN_IF_ERROR(CollectReachable(this, roots, /*partial=*/true, &needed));
  const MutexLock lock(&mutex_);
  uint64_t end = 0;
  uint32_t pack = 0;
  for (const auto& entry : needed.entries()) {
    const Location* at = places_.Find(entry.ref);
    if (at == nullptr) continue;
    if (*chunks == 0 || at->pack != pack || at->offset != end) ++*pieces;
    ++*chunks;
    pack = at->pack;
    end = uint64_t{at->offset} + at->size();
  }
  return {};
}

Status Media::Add(RecordSource* from, const ChunkRef* all, size_t n, size_t again,
                  const ProgressFn& progress, uint64_t* written, MediaNotes* notes) {
  const MutexLock writer(&write_mutex_);
  *written = 0;
  Adder adder(this, from, notes);
  Status status = Prepare();
  if (status.ok()) status = adder.Plan(all, n, again);
  if (status.ok()) status = adder.MakeRoom();
  if (status.ok()) status = adder.Copy(progress, written);
  return notes->store_failed ? status : Judge(status);
}

// Before a write: it is still the same medium, and no copy of it. What an earlier writer left
// unfinished goes away before the first one.
Status Media::Prepare() {
  std::array<uint8_t, 16> uuid;
  const Status found = ReadUuid(env_, root_, &uuid);
  if (!found.ok() || uuid != uuid_) {
    return Status::Make(Kind::kGone, "the medium at " + root_ + " is gone",
                        found.ok() ? "another one is there now" : found.ToString());
  }
  if (!HasNewest()) {
    return Status::Make(Kind::kGone, "the medium at " + root_ + " is gone",
                        "its newest generation is not there: a copy of it is in its place, or "
                        "another program wrote to it");
  }
  if (uncertain_) {
    SATCHEL_RETURN_IF_ERROR(Judge(Load()));
    uncertain_ = prepared_ = false;
  }
  if (prepared_) return {};
  SATCHEL_RETURN_IF_ERROR(MakeFolders(env_, root_));
  SATCHEL_RETURN_IF_ERROR(RemoveTorn());
  SATCHEL_RETURN_IF_ERROR(RemoveUnfinished());
  prepared_ = true;
  return {};
}

// Commit files that are none.
Status Media::RemoveTorn() {
  std::set<uint64_t> whole;
  for (const MediaGeneration& generation : generations()) {
    whole.insert(generation.commit.generation);
  }
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env_->List(Below("commits"), &names));
  Removal removal(env_);
  for (const std::string& name : names) {
    uint64_t number = 0;
    if (!ParseMediaCommitName(name, &number) || whole.count(number) != 0) continue;
    SATCHEL_RETURN_IF_ERROR(removal.Add(Below("commits/") + name));
  }
  return removal.Sync();
}

// Packs that no commit names and that are not whole, and indexes without a pack.
Status Media::RemoveUnfinished() {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env_->List(PacksPath(), &names));
  const std::set<uint32_t> named = Named();
  std::set<uint32_t> keep = named;
  std::set<uint32_t> broken;
  for (const auto& [pack, info] : packs()) {
    bool whole = true;
    if (named.count(pack) == 0) SATCHEL_RETURN_IF_ERROR(CheckWhole(pack, &whole));
    (whole ? keep : broken).insert(pack);
  }
  std::set<std::string> unfinished;
  for (const std::string& name : names) {
    uint32_t pack = 0;
    const std::string stem = name.substr(0, name.find('.'));
    if (name != stem + ".pack" && name != stem + ".idx") continue;
    if (ParsePackName(stem + ".pack", &pack) && keep.count(pack) == 0) unfinished.insert(name);
  }
  Removal removal(env_);
  for (const std::string& name : unfinished) {
    SATCHEL_RETURN_IF_ERROR(removal.Add(PacksPath() + "/" + name));
  }
  SATCHEL_RETURN_IF_ERROR(removal.Sync());
  return broken.empty() ? Status() : LoadPacks();
}

// Whether every record is there that the index of a pack names.
Status Media::CheckWhole(uint32_t pack, bool* whole) {
  std::vector<MediaIndexEntry> entries;
  const uint64_t size = packs()[pack].size;
  *whole = ReadIndex(pack, size, &entries).ok();
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint8_t buffer[kMaxRecordSize];
  for (const MediaIndexEntry& entry : entries) {
    RecordView record;
    MediaNotes notes;
    const Location at{pack, entry.offset, entry.length};
    SATCHEL_RETURN_IF_ERROR(ReadWhole(entry.ref, at, buffer, &record, whole, &notes));
    if (!*whole) break;
  }
  return {};
}

// What no generation names is written anew, whatever it contains: nobody knows whether it is
// durable.
Status Media::PutFile(const std::string& path, const std::string& data) {
  const MutexLock writer(&write_mutex_);
  const std::string what = "cannot write " + Below(path);
  if (!IsMediaPath(path) || data.size() > kMediaFileLimit) {
    return Status::Make(Kind::kUsage, what, "no medium may have such a file");
  }
  SATCHEL_RETURN_IF_ERROR(Prepare());
  std::string old;
  const Status read = ReadFile(env_, Below(path), kMediaFileLimit, &old);
  if (read.Is(Kind::kNotFound)) return Judge(WriteNew(env_, Below(path), data));
  const auto digest = Sha256(old.data(), old.size());
  for (const MediaGeneration& generation : generations()) {
    for (const MediaFile& file : generation.commit.files) {
      if (file.path != path || file.digest != digest) continue;
      if (old == data) return {};
      return Status::Make(Kind::kExists, what, "an older generation needs what is there");
    }
  }
  Removal removal(env_);
  SATCHEL_RETURN_IF_ERROR(removal.Add(Below(path)));
  SATCHEL_RETURN_IF_ERROR(removal.Sync());
  return Judge(WriteNew(env_, Below(path), data));
}

Status Media::Commit(const MediaDraft& draft, uint64_t created, uint64_t* generation,
                     uint64_t* freed, MediaNotes* notes) {
  const MutexLock writer(&write_mutex_);
  *freed = 0;
  SATCHEL_RETURN_IF_ERROR(Prepare());
  RefSet needed;
  bool all_known = !draft.keep_packs;
  SATCHEL_RETURN_IF_ERROR(Judge(CollectNeeded(draft, &needed, &all_known)));
  std::set<uint32_t> keep;
  const std::map<uint32_t, PackInfo> before = packs();
  if (all_known) {
    SATCHEL_RETURN_IF_ERROR(Judge(Gather(needed, &keep, notes)));
  } else {
    for (const auto& [pack, info] : before) keep.insert(pack);
  }
  MediaGeneration made;
  made.commit.uuid = uuid_;
  made.commit.created = created;
  SATCHEL_RETURN_IF_ERROR(DescribeFiles(draft, &made.commit.files));
  {
    const MutexLock lock(&mutex_);
    made.commit.generation = ++last_generation_;
    for (const uint32_t pack : keep) {
      made.commit.packs.push_back({pack, packs_[pack].chunks, packs_[pack].size});
    }
  }
  *generation = made.commit.generation;
  uncertain_ = true;  // until DropGenerations ends: a commit whose sync failed may be there
  SATCHEL_RETURN_IF_ERROR(
      Judge(WriteNew(env_, CommitPath(made.commit.generation), EncodeMediaCommit(made.commit))));
  {
    const MutexLock lock(&mutex_);
    generations_.insert(generations_.begin(), std::move(made));
  }
  return Judge(DropGenerations(kMediaGenerations, {}, freed));
}

// What the roots of a draft need, and whether nothing more is needed that is not known.
Status Media::CollectNeeded(const MediaDraft& draft, RefSet* needed, bool* all_known) {
  SATCHEL_RETURN_IF_ERROR(CollectReachable(this, draft.roots, /*partial=*/false, needed));
  for (const ChunkRef& ref : draft.chunks) needed->Insert(ref, {});
  for (const auto& entry : needed->entries()) {
    bool here = false;
    Has(&entry.ref, 1, &here);
    if (!here) return MissingChunk(entry.ref, "the medium lacks it");
  }
  std::vector<ChunkRef> missing;
  SATCHEL_RETURN_IF_ERROR(Missing(draft.carried, &missing));
  if (!missing.empty()) *all_known = false;
  SATCHEL_RETURN_IF_ERROR(CollectReachable(this, draft.carried, /*partial=*/true, needed));
  return CollectReachable(this, draft.partial, /*partial=*/true, needed);
}

// Chooses the packs of a new generation, after copying what is needed out of those that are not
// worth keeping.
Status Media::Gather(const RefSet& needed, std::set<uint32_t>* keep, MediaNotes* notes) {
  std::map<uint32_t, std::vector<Index::Entry>> live;
  {
    const MutexLock lock(&mutex_);
    for (const auto& entry : places_.entries()) {
      if (needed.Find(entry.ref) != nullptr) live[entry.value.pack].push_back(entry);
    }
  }
  uint64_t room = 0;
  SATCHEL_RETURN_IF_ERROR(FreeBytes(&room));
  const std::map<uint32_t, PackInfo> all = packs();
  const auto small = [&](const auto& item) { return all.at(item.first).size < kSmallPack; };
  const auto small_ones = static_cast<size_t>(std::count_if(live.begin(), live.end(), small));
  std::vector<Index::Entry> move;
  for (auto& item : live) {
    const uint64_t size = all.at(item.first).size;
    uint64_t bytes = 0;
    for (const auto& entry : item.second) bytes += entry.value.size() + kMediaIndexEntrySize;
    const bool worth = bytes * 2 < size || (small_ones > kManySmall && small(item));
    keep->insert(item.first);
    if (!worth || bytes + kReserve > room) continue;
    room -= bytes;
    move.insert(move.end(), item.second.begin(), item.second.end());
    keep->erase(item.first);
  }
  std::sort(move.begin(), move.end(), [](const auto& a, const auto& b) {
    return std::pair(a.value.pack, a.value.offset) < std::pair(b.value.pack, b.value.offset);
  });
  PackFile pack(this);
  uint8_t buffer[kMaxRecordSize];
  for (const auto& entry : move) {
    RecordView record;
    bool whole = false;
    SATCHEL_RETURN_IF_ERROR(ReadWhole(entry.ref, entry.value, buffer, &record, &whole, notes));
    if (whole) SATCHEL_RETURN_IF_ERROR(pack.Append(record, buffer));
    if (!whole) keep->insert(entry.value.pack);
  }
  SATCHEL_RETURN_IF_ERROR(pack.Close());
  keep->insert(pack.closed().begin(), pack.closed().end());
  return {};
}

Status Media::DescribeFiles(const MediaDraft& draft, std::vector<MediaFile>* files) {
  for (const std::string& path : draft.paths) {
    std::string data;
    if (!IsMediaPath(path)) return Status::Make(Kind::kUsage, path + " is no path of a medium");
    SATCHEL_RETURN_IF_ERROR(ReadFile(env_, Below(path), kMediaFileLimit, &data));
    files->push_back({path, static_cast<uint32_t>(data.size()), Sha256(data.data(), data.size())});
  }
  return {};
}

// Keeps the newest generation, `keep - 1` whole ones beside it, and packs in `spare`. With one to
// keep that is the newest whole one.
Status Media::DropGenerations(size_t keep, const std::set<uint32_t>& spare, uint64_t* freed) {
  std::vector<MediaGeneration> kept;
  std::vector<MediaGeneration> dropped;
  for (MediaGeneration& generation : generations()) {
    const bool newest = kept.empty() && keep > 1;
    const bool wanted = kept.size() < keep && (newest || generation.why.empty());
    (wanted ? kept : dropped).push_back(std::move(generation));
  }
  if (kept.empty()) return {};
  uncertain_ = true;
  std::set<std::string> unneeded;
  Removal removal(env_);
  for (const MediaGeneration& generation : dropped) {
    SATCHEL_RETURN_IF_ERROR(removal.Add(CommitPath(generation.commit.generation)));
    for (const MediaFile& file : generation.commit.files) unneeded.insert(file.path);
  }
  SATCHEL_RETURN_IF_ERROR(removal.Sync());
  for (const MediaGeneration& generation : kept) {
    for (const MediaFile& file : generation.commit.files) unneeded.erase(file.path);
  }
  {
    const MutexLock lock(&mutex_);
    generations_ = std::move(kept);
  }
  for (const std::string& path : unneeded) SATCHEL_RETURN_IF_ERROR(removal.Add(Below(path)));
  SATCHEL_RETURN_IF_ERROR(removal.Sync());
  const std::set<uint32_t> named = Named();
  std::set<uint32_t> remove;
  for (const auto& [pack, info] : packs()) {
    if (named.count(pack) == 0 && spare.count(pack) == 0) remove.insert(pack);
  }
  SATCHEL_RETURN_IF_ERROR(RemovePacks(remove, freed));
  uncertain_ = false;
  return {};
}

Status Media::RemovePacks(const std::set<uint32_t>& packs, uint64_t* freed) {
  if (packs.empty()) return {};
  Removal removal(env_);
  for (const uint32_t pack : packs) {
    reader_.Forget(pack);
    // A pack without its index and without a commit does not count.
    for (const char* suffix : {".idx", ".pack"}) {
      SATCHEL_RETURN_IF_ERROR(removal.Add(PathOf(pack, suffix)));
    }
  }
  SATCHEL_RETURN_IF_ERROR(removal.Sync());
  {
    const MutexLock lock(&mutex_);
    for (const uint32_t pack : packs) *freed += packs_[pack].size;
  }
  SATCHEL_RETURN_IF_ERROR(LoadPacks());
  if (env_->Exists(PacksPath())) return {};
  return Status::Make(Kind::kNotFound, "cannot list " + PacksPath(), "the medium was pulled out");
}

}  // namespace satchel
