// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/store/store.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "chunkstore/core/format/description.h"
#include "chunkstore/core/packs/pack_scan.h"

namespace satchel {
namespace {

constexpr char kFormat[] = "satchel-store";
constexpr int kVersion = 3;

Status Context(const std::string& what, const Status& status) {
  return Status::Make(status.kind(), what, status.ToString());
}

Status CheckEmpty(Env* env, const std::string& path) {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env->List(path, &names));
  for (const std::string& name : names) {
    if (name == "packs" || name == "store.json.tmp") continue;  // of a creation cut short
    return Status::Make(Kind::kExists, "cannot make store " + path,
                        "the folder has other things in it, " + name + " for one");
  }
  return {};
}

// After a sync that failed the page cache may hold as clean what is not on the disk. Syncing once
// more tells nothing; writing it once more does.
Status WriteAgain(File* file, uint64_t begin, uint64_t end) {
  std::string piece;
  for (uint64_t at = begin; at < end; at += piece.size()) {
    piece.resize(std::min<uint64_t>(end - at, 1 << 20));
    size_t got = 0;
    SATCHEL_RETURN_IF_ERROR(file->ReadAt(at, piece.size(), piece.data(), &got));
    SATCHEL_RETURN_IF_ERROR(file->WriteAt(at, piece.data(), piece.size()));
  }
  return {};
}

// Counts one operation while it runs.
class OperationCount {
 public:
  explicit OperationCount(std::atomic<int>* count) : count_(count) { ++*count_; }
  ~OperationCount() { --*count_; }
  OperationCount(const OperationCount&) = delete;
  OperationCount& operator=(const OperationCount&) = delete;

 private:
  std::atomic<int>* const count_;
};

std::string Parent(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

Store::Store(Env* env, std::string path, const ChunkOptions& options, Access access)
    : outside_(env),
      access_(access),
      reading_(access != Access::kWrite ? std::make_unique<ReadingEnv>(env) : nullptr),
      env_(reading_ != nullptr ? reading_.get() : env),
      path_(std::move(path)),
      options_(options) {}

Store::~Store() {
  if (chunks_ != nullptr) (void)chunks_->Sync();
}

Status Store::Create(Env* env, const std::string& path) {
  if (env->Exists(path + "/store.json")) {
    return Status::Make(Kind::kExists, "cannot make store " + path, "it is there already");
  }
  SATCHEL_RETURN_IF_ERROR(env->MakeDir(path));
  SATCHEL_RETURN_IF_ERROR(CheckEmpty(env, path));
  SATCHEL_RETURN_IF_ERROR(env->MakeDir(path + "/packs"));
  SATCHEL_RETURN_IF_ERROR(env->SyncDir(path));  // where store.json is, packs/ is
  const std::string described = path + "/store.json";
  Status status = WriteFileDurably(env, described, MakeDescription(kFormat, kVersion, ""));
  if (status.ok()) status = env->SyncDir(Parent(path));
  // Whoever goes on after an error has to make the store again: this one's name may not be durable.
  if (!status.ok() && env->Exists(described)) (void)env->Remove(described);
  return status;
}

Status Store::Open(Env* env, const std::string& path, const ChunkOptions& options,
                   std::unique_ptr<Store>* store) {
  return OpenFor(Access::kWrite, env, path, options, store);
}

Status Store::OpenToRead(Env* env, const std::string& path, std::unique_ptr<Store>* store) {
  return OpenFor(Access::kRead, env, path, {}, store);
}

Status Store::OpenToRelieve(Env* env, const std::string& path, std::unique_ptr<Store>* store) {
  return OpenFor(Access::kRelieve, env, path, {}, store);
}

Status Store::OpenFor(Access access, Env* env, const std::string& path, const ChunkOptions& options,
                      std::unique_ptr<Store>* store) {
  SATCHEL_RETURN_IF_ERROR(
      CheckDescription(env, path + "/store.json", kFormat, kVersion, "store " + path));
  std::unique_ptr<Store> made(new Store(env, path, options, access));
  SATCHEL_RETURN_IF_ERROR(made->TakeLock());
  {
    const AloneLock gate(&made->gate_);
    SATCHEL_RETURN_IF_ERROR(access == Access::kWrite ? made->Load(nullptr, nullptr)
                                                     : made->LoadToRead());
  }
  *store = std::move(made);
  return {};
}

// Who only reads shares it. A store that nobody had open yet has no lock, and none to share.
Status Store::TakeLock() {
  const bool shared = access_ == Access::kRead;
  const std::string lock = path_ + "/LOCK";
  const Status status = shared ? outside_->LockShared(lock, &lock_) : outside_->Lock(lock, &lock_);
  if (shared && status.Is(Kind::kNotFound)) return {};
  if (!status.Is(Kind::kLocked)) return status;
  return Status::Make(Kind::kLocked, "cannot open store " + path_, status.why());
}

Status Store::LoadToRead() {
  const std::string what = "cannot open store " + path_;
  std::unique_ptr<Index> index;
  bool complete = false;
  if (env_->Exists(IndexPath())) {
    Status status = Index::OpenToRead(reading_.get(), IndexPath(), &index);
    if (status.ok()) status = index->End(&seen_, &complete);
    if (!status.ok() && !status.Is(Kind::kDamaged)) return Context(what, status);
  }
  if (!complete) return Status::Make(Kind::kDamaged, what, "its index has to be rebuilt");
  chunks_ = std::make_unique<Chunks>(env_, PacksPath(), std::move(index), seen_, options_);
  return {};
}

Status Store::GiveBack() {
  const AloneLock gate(&gate_);
  PackPosition end;
  bool known = false;
  chunks_->Stop();  // a Sync that is under way moves the end
  const Status status = chunks_->index()->End(&end, &known);
  chunks_.reset();
  SATCHEL_RETURN_IF_ERROR(status);
  return known ? CutAfter(env_, end) : Status();
}

// Removes what the packs have behind `end`.
Status Store::CutAfter(Env* env, const PackPosition& end) {
  std::vector<uint32_t> packs;
  SATCHEL_RETURN_IF_ERROR(ListPacks(&packs));
  for (const uint32_t pack : packs) {
    if (pack > end.pack) SATCHEL_RETURN_IF_ERROR(env->Remove(PackPath(pack)));
    if (pack != end.pack) continue;
    std::unique_ptr<File> file;
    uint64_t size = 0;
    SATCHEL_RETURN_IF_ERROR(env->Open(PackPath(pack), OpenMode::kReadWrite, &file));
    SATCHEL_RETURN_IF_ERROR(file->Size(&size));
    if (size > end.offset) SATCHEL_RETURN_IF_ERROR(file->Truncate(end.offset));
  }
  return {};
}

Status Store::ListPacks(std::vector<uint32_t>* packs) {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env_->List(PacksPath(), &names));
  for (const std::string& name : names) {
    uint32_t pack = 0;
    if (ParsePackName(name, &pack)) packs->push_back(pack);
  }
  return {};
}

Status Store::Load(const ProgressFn& progress, const PackPosition* acknowledged) {
  std::unique_ptr<Index> index;
  Status status = Index::Open(env_, IndexPath(), &index);
  if (status.Is(Kind::kDamaged)) {
    SATCHEL_RETURN_IF_ERROR(Index::Destroy(env_, IndexPath()));
    status = Index::Open(env_, IndexPath(), &index);
  }
  if (!status.ok()) return Context("cannot open store " + path_, status);
  PackPosition end;
  status = RecoverTail(index.get(), progress, acknowledged, &end);
  if (status.Is(Kind::kCancelled)) return status;
  if (!status.ok()) return Context("cannot open store " + path_, status);
  chunks_ = std::make_unique<Chunks>(env_, PacksPath(), std::move(index), end, options_);
  return {};
}

// Indexes the records behind the index's end. An index without one gets all of them, and its end
// only then, so that a rebuild that was interrupted begins again.
Status Store::RecoverTail(Index* index, const ProgressFn& progress,
                          const PackPosition* acknowledged, PackPosition* end) {
  bool complete = false;
  SATCHEL_RETURN_IF_ERROR(index->End(end, &complete));
  std::vector<uint32_t> packs;
  SATCHEL_RETURN_IF_ERROR(ListPacks(&packs));
  const PackPosition known = *end;
  if (complete) acknowledged = &known;
  bool reached = known.pack == 0;
  for (const uint32_t pack : packs) {
    if (pack < known.pack) continue;
    Unindexed part{pack, kPackHeaderSize, pack == packs.back(), !complete, UINT64_MAX};
    if (pack == known.pack) part.from = known.offset;
    if (acknowledged != nullptr && pack == acknowledged->pack) part.sure = acknowledged->offset;
    if (acknowledged != nullptr && pack > acknowledged->pack) part.sure = 0;
    uint64_t size = 0;
    SATCHEL_RETURN_IF_ERROR(RecoverPack(index, part, progress, &size));
    if (size == 0) continue;  // nothing of it was acknowledged, and it is gone
    // A pack that lost what the index knows gets no new records.
    *end = PackPosition{pack, size < part.from ? options_.pack_limit : size};
    reached = true;
  }
  if (!reached) end->offset = options_.pack_limit;  // the pack is gone; go on with the next one
  return complete ? Status() : index->Write({}, {}, *end);
}

Status Store::RecoverPack(Index* index, const Unindexed& part, const ProgressFn& progress,
                          uint64_t* end) {
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env_->Open(PackPath(part.pack), OpenMode::kReadWrite, &file));
  SATCHEL_RETURN_IF_ERROR(file->Size(end));
  if (*end <= part.from && part.from > kPackHeaderSize) return {};
  const Status header = CheckPackHeader(file.get());
  const bool begun = part.sure > 0 && (!part.newest || *end > kPackHeaderSize);
  if (header.Is(Kind::kDamaged) && part.from == kPackHeaderSize && !begun) {
    *end = 0;
    return env_->Remove(PackPath(part.pack));
  }
  if (!header.ok() && !header.Is(Kind::kDamaged)) return header;

  // What is indexed has to be durable; what a crashed writer left may be in the page cache only.
  SATCHEL_RETURN_IF_ERROR(WriteAgain(file.get(), part.sure, *end));
  SATCHEL_RETURN_IF_ERROR(file->Sync());
  SATCHEL_RETURN_IF_ERROR(env_->SyncDir(PacksPath()));
  const uint64_t size = *end;
  SATCHEL_RETURN_IF_ERROR(IndexRecords(index, part, file.get(), header.ok(), size, progress, end));
  if (*end >= size) return {};
  if (*end < part.sure && !part.newest) {
    *end = size;
    return {};
  }
  SATCHEL_RETURN_IF_ERROR(file->Truncate(*end));
  return file->Sync();
}

// *good is where the last record or frame that was indexed ends. trusted: the header of the pack
// is sound, so that records which chain need no look at their content.
Status Store::IndexRecords(Index* index, const Unindexed& part, File* file, bool trusted,
                           uint64_t size, const ProgressFn& progress, uint64_t* good) {
  *good = part.from;
  std::vector<Index::Entry> entries;
  const auto write = [&] {
    if (part.rebuild) return index->Fill(entries);
    return index->Write(entries, Index::OfFrames(entries), PackPosition{part.pack, *good});
  };
  const auto write_many = [&] {
    if (entries.size() < options_.max_pending) return Status();
    SATCHEL_RETURN_IF_ERROR(write());
    entries.clear();
    if (progress && !progress(*good, size)) {
      return Status::Make(Kind::kCancelled, "stopped by the caller");
    }
    return Status();
  };
  ScanVisitor visitor;
  visitor.on_record = [&](uint64_t offset, const RecordView& record, bool chained) {
    uint8_t block[kBlockSize];
    if ((!chained || !trusted) && !VerifyRecord(record, block).ok()) return Status();
    *good = offset + record.size();
    entries.push_back({record.ref, {part.pack, static_cast<uint32_t>(offset), record.length}});
    return write_many();
  };
  FrameDecoder decoder;
  std::vector<ChunkRef> names;
  visitor.on_frame = [&](uint64_t offset, const FrameView& frame) {
    if (!NameFrame(frame, &decoder, &names).ok()) return Status();
    *good = offset + frame.size();
    for (unsigned i = 0; i < frame.count; ++i) {
      if (!names[i].IsZero()) entries.push_back({names[i], frame.Slot(part.pack, offset, i)});
    }
    return write_many();
  };
  bool torn = false;
  visitor.on_garbage = [&](uint64_t begin, uint64_t, const std::string&) {
    torn = begin >= part.sure;
    return torn ? Status::Make(Kind::kDamaged, "a torn record") : Status();
  };
  const Status scanned = ScanPack(file, part.from, size, visitor);
  if (!scanned.ok() && !torn) return scanned;
  return entries.empty() ? Status() : write();
}

void Store::Regard(BlockMap* map) {
  const MutexLock lock(&maps_mutex_);
  const auto handle = map->handle();
  if (std::find(maps_.begin(), maps_.end(), handle) != maps_.end()) return;
  maps_.push_back(handle);
}

// The places in the pack that entries of the maps lead to, each once.
void Store::FindInMaps(uint32_t pack, std::vector<Location>* places) {
  const MutexLock lock(&maps_mutex_);
  std::set<uint64_t> words;
  for (const std::shared_ptr<BlockMapHandle>& handle : maps_) {
    const MutexLock held(&handle->mutex);
    const BlockMap* const map = handle->map;
    for (uint64_t i = 0; map != nullptr && i < map->blocks(); ++i) {
      const BlockEntry entry = map->Load(i);
      if (entry.state != BlockState::kPacked || entry.at.pack != pack) continue;
      words.insert(EncodeLocation(entry.at));
    }
  }
  for (const uint64_t word : words) places->push_back(DecodeLocation(word));
}

// How many entries of the maps still lead into the pack. Forgets the maps that are gone.
uint64_t Store::RepointMaps(uint32_t pack, const Moves& moves) {
  const MutexLock lock(&maps_mutex_);
  uint64_t left = 0;
  for (size_t i = 0; i < maps_.size();) {
    const std::shared_ptr<BlockMapHandle> handle = maps_[i];
    const MutexLock held(&handle->mutex);
    if (handle->map == nullptr) {
      maps_.erase(maps_.begin() + static_cast<ptrdiff_t>(i));
      continue;
    }
    left += handle->map->Repoint(pack, moves);
    ++i;
  }
  return left;
}

Status Store::WithChunks(const std::function<Status(Chunks*)>& act) {
  const SharedLock gate(&gate_);
  if (chunks_ == nullptr) {
    return Status::Make(Kind::kState, "store " + path_ + " has no index", "rebuilding it failed");
  }
  return act(chunks_.get());
}

std::vector<ChunkRef> Store::TakeNamesakes() {
  const SharedLock gate(&gate_);
  return chunks_ == nullptr ? std::vector<ChunkRef>() : chunks_->TakeNamesakes();
}

Status Store::Put(const uint8_t* blocks, size_t n, ChunkRef* refs) {
  const OperationCount counted(&foreground_);
  return WithChunks([&](Chunks* chunks) { return chunks->Put(blocks, n, refs); });
}

Status Store::Get(const ChunkRef& ref, uint8_t* block) {
  return WithChunks([&](Chunks* chunks) { return chunks->Get(ref, block); });
}

Status Store::Has(const ChunkRef* refs, size_t n, bool* has) {
  return WithChunks([&](Chunks* chunks) {
    std::vector<Location> at(n);
    SATCHEL_RETURN_IF_ERROR(chunks->Locate(refs, n, at.data(), has));
    for (size_t i = 0; i < n; ++i) has[i] = has[i] || refs[i].IsZero();
    return Status();
  });
}

Status Store::Records(const ChunkRef* refs, size_t n, std::string* out) {
  return WithChunks([&](Chunks* chunks) { return chunks->Records(refs, n, out, {}); });
}

Status Store::Admit(const uint8_t* data, size_t n, std::vector<ChunkRef>* admitted) {
  const OperationCount counted(&foreground_);
  return WithChunks([&](Chunks* chunks) { return chunks->Admit(data, n, admitted); });
}

Status Store::Sync() {
  return WithChunks([](Chunks* chunks) { return chunks->Sync(); });
}

Status Store::Import(BlockSource* source, const TableRoot* base, const ProgressFn& progress,
                     TableRoot* root, Stored* stored) {
  const OperationCount counted(&foreground_);
  return WithChunks([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(ImportVolume(chunks, source, base, progress, root, stored));
    SATCHEL_RETURN_IF_ERROR(chunks->Sync());
    in_use_.Made(*root);
    return Status();
  });
}

Status Store::Export(const TableRoot& root, File* out, const ProgressFn& progress) {
  const OperationCount counted(&foreground_);
  return WithChunks([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(ExportVolume(chunks, root, out, progress));
    return out->Sync();
  });
}

Status Store::ExportFile(const TableRoot& root, const std::string& path,
                         const ProgressFn& progress) {
  static std::atomic<unsigned> number{0};
  const std::string temporary =
      path + ".partial-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  Status status;
  {
    std::unique_ptr<File> file;
    SATCHEL_RETURN_IF_ERROR(outside_->Open(temporary, OpenMode::kCreateOwn, &file));
    status = Export(root, file.get(), progress);
  }
  if (status.ok()) status = outside_->Rename(temporary, path);
  if (!status.ok()) {
    (void)outside_->Remove(temporary);
    return status;
  }
  return outside_->SyncDir(Parent(path));
}

Status Store::Check(const TableRoot& root, const ProgressFn& progress) {
  return WithChunks([&](Chunks* chunks) { return CheckVolume(chunks, root, progress); });
}

Status Store::Read(const TableRoot& root, uint64_t offset, uint64_t length, uint8_t* out) {
  return WithChunks([&](Chunks* chunks) { return ReadVolume(chunks, root, offset, length, out); });
}

Status Store::Resolve(const TableRoot& root, BlockMap* map, uint64_t first, uint64_t count,
                      std::vector<ChunkRef>* missing) {
  Regard(map);
  return WithChunks(
      [&](Chunks* chunks) { return ResolveBlocks(chunks, root, map, first, count, missing); });
}

Status Store::MissingIn(const TableRoot& root, uint64_t first, uint64_t count,
                        std::vector<ChunkRef>* missing) {
  return WithChunks(
      [&](Chunks* chunks) { return MissingBlocks(chunks, root, first, count, missing); });
}

Status Store::Place(BlockMap* map, const uint32_t* numbers, size_t n, const uint8_t* data) {
  Regard(map);
  const OperationCount counted(&foreground_);
  return WithChunks([&](Chunks* chunks) { return PlaceBlocks(chunks, map, numbers, n, data); });
}

Status Store::Commit(const TableRoot& root, BlockMap* map, File* overlay, TableRoot* new_root) {
  Regard(map);
  const OperationCount counted(&foreground_);
  return WithChunks([&](Chunks* chunks) {
    SATCHEL_RETURN_IF_ERROR(CommitVolume(chunks, root, map, overlay, new_root));
    in_use_.Made(*new_root);
    in_use_.Changed(map, *new_root);
    return Status();
  });
}

Status Store::Reachable(const std::vector<TableRoot>& roots, std::vector<ChunkRef>* refs) {
  return WithChunks([&](Chunks* chunks) {
    RefSet seen;
    SATCHEL_RETURN_IF_ERROR(CollectReachable(chunks, roots, /*partial=*/false, &seen));
    refs->clear();
    for (const auto& entry : seen.entries()) refs->push_back(entry.ref);
    return Status();
  });
}

Status Store::Missing(const std::vector<TableRoot>& roots, std::vector<ChunkRef>* refs) {
  return WithChunks([&](Chunks* chunks) {
    const auto has = [chunks](const ChunkRef* found, size_t n, bool* here) {
      Location at[kPageFanout];
      return chunks->Locate(found, n, at, here);
    };
    return CollectMissing(chunks, roots, has, refs);
  });
}

}  // namespace satchel
