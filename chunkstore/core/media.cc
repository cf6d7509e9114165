// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/media.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "chunkstore/core/description.h"
#include "chunkstore/core/pack_scan.h"

namespace satchel {
namespace {

constexpr char kFormat[] = "satchel-media";
constexpr int kVersion = 1;

// Kept free beyond what is counted: the tables of the file system, the manifest, the log.
constexpr uint64_t kReserve = uint64_t{1} << 20;

std::string Described(const std::string& root) { return root + "/satchel/media.json"; }

// "000123.pack" is number 123 with the suffix ".pack".
bool ParseName(const std::string& name, uint32_t* pack, std::string* suffix) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return false;
  *suffix = name.substr(dot);
  return ParsePackName(name.substr(0, dot) + ".pack", pack);
}

}  // namespace

// A pack on its way to the medium.
class Media::PackFile {
 public:
  explicit PackFile(Media* media) : media_(media) {}

  ~PackFile() {
    if (file_ == nullptr) return;
    file_.reset();
    (void)media_->env_->Remove(media_->PathOf(pack_, ".tmp"));
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

  // The pack is durable under its name, its index beside it, and its chunks can be asked for.
  Status Close() {
    if (file_ == nullptr) return {};
    SATCHEL_RETURN_IF_ERROR(Flush());
    SATCHEL_RETURN_IF_ERROR(file_->Sync());
    Env* env = media_->env_;
    SATCHEL_RETURN_IF_ERROR(
        env->Rename(media_->PathOf(pack_, ".tmp"), media_->PathOf(pack_, ".pack")));
    file_.reset();
    SATCHEL_RETURN_IF_ERROR(env->SyncDir(media_->PacksPath()));
    const std::string index = EncodeMediaIndex(&entries_, size_);
    SATCHEL_RETURN_IF_ERROR(WriteFileDurably(env, media_->PathOf(pack_, ".idx"), index));
    written_ += size_ + index.size();
    {
      const std::lock_guard lock(media_->mutex_);
      media_->sizes_[pack_] = size_;
      media_->AddEntries(pack_, entries_);
    }
    entries_.clear();
    return {};
  }

  uint64_t written() const { return written_; }  // bytes of closed packs and their indexes

 private:
  static constexpr size_t kBufferSize = 1 << 20;

  Status Start() {
    SATCHEL_RETURN_IF_ERROR(media_->RemoveLeftovers(&pack_));
    SATCHEL_RETURN_IF_ERROR(
        media_->env_->Open(media_->PathOf(pack_, ".tmp"), OpenMode::kCreate, &file_));
    buffer_.assign(kPackHeaderSize, '\0');
    std::memcpy(buffer_.data(), kPackMagic, sizeof kPackMagic);
    std::memcpy(buffer_.data() + sizeof kPackMagic, &kPackVersion, sizeof kPackVersion);
    flushed_ = 0;
    size_ = kPackHeaderSize;
    return {};
  }

  Status Flush() {
    SATCHEL_RETURN_IF_ERROR(file_->WriteAt(flushed_, buffer_.data(), buffer_.size()));
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
  std::vector<MediaIndexEntry> entries_;
};

// One Add: what to copy, whether it fits, the copying.
class Media::Adder {
 public:
  Adder(Media* media, Chunks* from, MediaNotes* notes)
      : media_(media), from_(from), notes_(notes) {}

  // kMissing if the store lacks one.
  Status Plan(const ChunkRef* refs, size_t n) {
    RefSet wanted;
    {
      const std::lock_guard lock(media_->mutex_);
      for (size_t i = 0; i < n; ++i) {
        if (!refs[i].IsZero() && media_->places_.Find(refs[i]) == nullptr) {
          wanted.Insert(refs[i], {});
        }
      }
    }
    plan_.reserve(wanted.size());
    for (const auto& entry : wanted.entries()) {
      Location at;
      bool found = false;
      Status status = from_->Locate(&entry.ref, 1, &at, &found);
      if (status.ok() && !found) status = Status::Missing(entry.ref, "the store lacks it");
      SATCHEL_RETURN_IF_ERROR(OfStore(std::move(status)));
      plan_.push_back({entry.ref, at});
      total_ += at.size();
    }
    return {};
  }

  Status CheckRoom() const {
    if (plan_.empty()) return {};
    uint64_t free = 0;
    SATCHEL_RETURN_IF_ERROR(media_->FreeBytes(&free));
    const uint64_t beside = plan_.size() * kMediaIndexEntrySize + kReserve;
    if (total_ + beside <= free) return {};
    uint64_t need = 0;
    SATCHEL_RETURN_IF_ERROR(Measure(&need));
    need += beside;
    if (need <= free) return {};
    return Status::Make(
        Kind::kFull, "cannot copy to the medium at " + media_->root_,
        std::to_string(need) + " bytes are needed and " + std::to_string(free) + " are free");
  }

  Status Copy(const ProgressFn& progress, uint64_t* written) {
    PackFile pack(media_);
    std::string bytes;
    uint64_t done = 0;
    uint64_t reported = 0;
    for (const auto& item : plan_) {
      SATCHEL_RETURN_IF_ERROR(ReadFromStore(item, &bytes));
      const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
      RecordView record;
      SATCHEL_RETURN_IF_ERROR(ParseRecord(data, bytes.size(), &record));
      SATCHEL_RETURN_IF_ERROR(pack.Append(record, data));
      done += item.value.size();
      if (progress && done - reported >= kReportEvery) {
        reported = done;
        if (!progress(done, total_)) return Status::Make(Kind::kCancelled, "stopped by the caller");
      }
    }
    SATCHEL_RETURN_IF_ERROR(pack.Close());
    *written = pack.written();
    if (progress) (void)progress(total_, total_);
    return {};
  }

 private:
  static constexpr uint64_t kReportEvery = 1 << 20;

  // Bytes that the records will take: what is raw in the store gets shorter on its way.
  Status Measure(uint64_t* bytes) const {
    *bytes = 0;
    std::string record;
    for (const auto& item : plan_) {
      SATCHEL_RETURN_IF_ERROR(ReadFromStore(item, &record));
      *bytes += record.size();
    }
    return {};
  }

  // *bytes becomes the record. The medium must not get what the store has lost.
  Status ReadFromStore(const Index::Entry& item, std::string* bytes) const {
    bytes->clear();
    const Status status = from_->AppendForOthers(item.ref, item.value, bytes);
    const bool lost = status.Is(Kind::kDamaged) || status.Is(Kind::kInvalid);
    if (!lost && !status.Is(Kind::kNotFound)) return OfStore(status);
    SATCHEL_RETURN_IF_ERROR(OfStore(from_->Forget(item.ref, item.value)));
    return OfStore(Status::Invalid(item.ref, "its record in the store is damaged"));
  }

  Status OfStore(Status status) const {
    if (!status.ok()) notes_->store_failed = true;
    return status;
  }

  Media* const media_;
  Chunks* const from_;
  MediaNotes* const notes_;
  std::vector<Index::Entry> plan_;
  uint64_t total_ = 0;  // bytes of the records in the store
};

Media::Media(Env* env, std::string root)
    : env_(env), root_(std::move(root)), reader_(env, PacksPath()) {}

std::string Media::PathOf(uint32_t pack, const char* suffix) const {
  char name[32];
  std::snprintf(name, sizeof name, "/%06u%s", pack, suffix);
  return PacksPath() + name;
}

Status Media::Init(Env* env, const std::string& root, const std::string& uuid) {
  if (env->Exists(Described(root))) {
    return Status::Make(Kind::kExists, "cannot make a medium at " + root, "there is one already");
  }
  SATCHEL_RETURN_IF_ERROR(env->MakeDir(root + "/satchel"));
  SATCHEL_RETURN_IF_ERROR(env->MakeDir(root + "/satchel/packs"));
  Status status = WriteFileDurably(
      env, Described(root), MakeDescription(kFormat, kVersion, ", \"uuid\": \"" + uuid + "\""));
  if (status.ok()) status = env->SyncDir(root);
  if (!status.ok() && env->Exists(Described(root))) (void)env->Remove(Described(root));
  return status;
}

Status Media::Open(Env* env, const std::string& root, std::unique_ptr<Media>* media) {
  SATCHEL_RETURN_IF_ERROR(
      CheckDescription(env, Described(root), kFormat, kVersion, "the medium at " + root));
  std::unique_ptr<Media> made(new Media(env, root));
  SATCHEL_RETURN_IF_ERROR(made->Judge(made->LoadPacks()));
  *media = std::move(made);
  return {};
}

Status Media::LoadPacks() {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env_->List(PacksPath(), &names));
  for (const std::string& name : names) {
    uint32_t pack = 0;
    if (!ParsePackName(name, &pack)) continue;
    const Status status = LoadPack(pack);
    if (!status.Is(Kind::kNotFound)) SATCHEL_RETURN_IF_ERROR(status);
  }
  return {};
}

Status Media::LoadPack(uint32_t pack) {
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env_->Open(PathOf(pack, ".pack"), OpenMode::kRead, &file));
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  std::string data;
  std::vector<MediaIndexEntry> entries;
  Status status = ReadFile(env_, PathOf(pack, ".idx"), kMediaIndexLimit, &data);
  if (status.ok()) status = DecodeMediaIndex(data, &entries);
  if (status.Is(Kind::kNotFound) || status.Is(Kind::kDamaged) || status.Is(Kind::kUnsupported)) {
    entries.clear();
    status = ScanInto(pack, &entries);
  }
  SATCHEL_RETURN_IF_ERROR(status);
  const std::lock_guard lock(mutex_);
  if (places_.size() + entries.size() > kMediaChunkLimit) {
    return Status::Make(Kind::kDamaged, "cannot use the medium at " + root_,
                        "its indexes name too many chunks");
  }
  sizes_[pack] = size;
  AddEntries(pack, entries);
  return {};
}

Status Media::ScanInto(uint32_t pack, std::vector<MediaIndexEntry>* entries) {
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env_->Open(PathOf(pack, ".pack"), OpenMode::kRead, &file));
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  ScanVisitor visitor;
  visitor.on_record = [&](uint64_t offset, const RecordView& record, bool) {
    if (entries->size() >= kMediaChunkLimit || offset > UINT32_MAX) return Status();
    entries->push_back({record.ref, static_cast<uint32_t>(offset), record.length});
    return Status();
  };
  visitor.on_frame = [](uint64_t, const FrameView&) { return Status(); };  // not on media
  visitor.on_garbage = [](uint64_t, uint64_t, const std::string&) { return Status(); };
  return ScanPack(file.get(), kPackHeaderSize, size, visitor);
}

void Media::AddEntries(uint32_t pack, const std::vector<MediaIndexEntry>& entries) {
  for (const MediaIndexEntry& entry : entries) {
    places_.Insert(entry.ref, Location{pack, entry.offset, entry.length});
  }
}

void Media::Has(const ChunkRef* refs, size_t n, bool* has) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < n; ++i) has[i] = refs[i].IsZero() || places_.Find(refs[i]) != nullptr;
}

Status Media::Records(const ChunkRef* refs, size_t n, std::string* out, MediaNotes* notes) {
  uint8_t buffer[kMaxRecordSize];
  for (size_t i = 0; i < n; ++i) {
    Location at;
    {
      const std::lock_guard lock(mutex_);
      const Location* found = places_.Find(refs[i]);
      if (found == nullptr) continue;
      at = *found;
    }
    RecordView record;
    bool whole = false;
    SATCHEL_RETURN_IF_ERROR(ReadWhole(refs[i], at, buffer, &record, &whole, notes));
    if (whole) out->append(reinterpret_cast<const char*>(buffer), record.size());
  }
  return {};
}

Status Media::ReadWhole(const ChunkRef& ref, const Location& at, uint8_t* buffer,
                        RecordView* record, bool* whole, MediaNotes* notes) {
  const Status status = reader_.ReadRaw(at, buffer, record);
  *whole = status.ok() && record->ref == ref;
  if (*whole) return {};
  if (!status.ok() && !status.Is(Kind::kDamaged)) {
    const Status judged = Judge(status);
    if (!judged.ok()) return judged;
  }
  notes->damaged.push_back(ref);
  return {};
}

Status Media::Add(Chunks* from, const ChunkRef* refs, size_t n, const ProgressFn& progress,
                  uint64_t* written, MediaNotes* notes) {
  const std::lock_guard writer(write_mutex_);
  *written = 0;
  Adder adder(this, from, notes);
  SATCHEL_RETURN_IF_ERROR(adder.Plan(refs, n));
  SATCHEL_RETURN_IF_ERROR(adder.CheckRoom());
  Status status = adder.Copy(progress, written);
  if (notes->store_failed || status.ok()) return status;
  status = Judge(status);
  return status.ok() ? Status::Make(Kind::kIo, "a pack vanished from the medium at " + root_)
                     : status;
}

Status Media::Retain(const ChunkRef* refs, size_t n, uint64_t* freed, MediaNotes* notes) {
  const std::lock_guard writer(write_mutex_);
  *freed = 0;
  RefSet keep;
  for (size_t i = 0; i < n; ++i) keep.Insert(refs[i], {});

  std::map<uint32_t, std::vector<Index::Entry>> live;
  std::map<uint32_t, uint64_t> sizes;
  uint64_t room = 0;
  SATCHEL_RETURN_IF_ERROR(FreeBytes(&room));
  {
    const std::lock_guard lock(mutex_);
    sizes = sizes_;
    for (const auto& entry : places_.entries()) {
      if (keep.Find(entry.ref) != nullptr) live[entry.value.pack].push_back(entry);
    }
  }
  std::set<uint32_t> remove;
  uint64_t removed = 0;
  uint64_t copied = 0;
  for (const auto& [pack, size] : sizes) {
    uint64_t bytes = 0;
    for (const auto& entry : live[pack]) bytes += entry.value.size() + kMediaIndexEntrySize;
    const bool copy = bytes > 0 && bytes * 2 < size && bytes + kReserve < room;
    if (copy) {
      SATCHEL_RETURN_IF_ERROR(Judge(Repack(live[pack], notes)));
      copied += bytes;
      room -= bytes;
    }
    if (bytes > 0 && !copy) continue;
    remove.insert(pack);
    removed += size;
  }
  *freed = removed - copied;
  for (const uint32_t pack : remove) SATCHEL_RETURN_IF_ERROR(Judge(RemovePack(pack)));
  if (remove.empty()) return {};
  SATCHEL_RETURN_IF_ERROR(Judge(env_->SyncDir(PacksPath())));
  {
    const std::lock_guard lock(mutex_);
    places_.Clear();
    sizes_.clear();
  }
  return Judge(LoadPacks());
}

Status Media::Repack(const std::vector<Index::Entry>& live, MediaNotes* notes) {
  std::vector<Index::Entry> order = live;
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.value.offset < b.value.offset; });
  PackFile pack(this);
  uint8_t buffer[kMaxRecordSize];
  for (const auto& entry : order) {
    RecordView record;
    bool whole = false;
    SATCHEL_RETURN_IF_ERROR(ReadWhole(entry.ref, entry.value, buffer, &record, &whole, notes));
    if (whole) SATCHEL_RETURN_IF_ERROR(pack.Append(record, buffer));
  }
  return pack.Close();
}

Status Media::RemovePack(uint32_t pack) {
  reader_.Forget(pack);
  // An index without its pack is ignored; a pack without its index would have to be scanned.
  SATCHEL_RETURN_IF_ERROR(env_->Remove(PathOf(pack, ".pack")));
  const std::string index = PathOf(pack, ".idx");
  return env_->Exists(index) ? env_->Remove(index) : Status();
}

// Also gives the number for the next pack: above every number that is or was in use.
Status Media::RemoveLeftovers(uint32_t* next) {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env_->List(PacksPath(), &names));
  *next = 1;
  for (const std::string& name : names) {
    uint32_t pack = 0;
    std::string suffix;
    if (!ParseName(name, &pack, &suffix)) continue;
    *next = std::max(*next, pack + 1);
    if (suffix == ".tmp" || suffix == ".idx.tmp") {
      SATCHEL_RETURN_IF_ERROR(env_->Remove(PacksPath() + "/" + name));
    }
  }
  return {};
}

Status Media::FreeBytes(uint64_t* bytes) { return Judge(env_->FreeBytes(root_, bytes)); }

size_t Media::chunks() {
  const std::lock_guard lock(mutex_);
  return places_.size();
}

Status Media::Judge(const Status& status) {
  if (!status.Is(Kind::kNotFound)) return status;
  if (env_->Exists(Described(root_))) return {};
  return Status::Make(Kind::kGone, "the medium at " + root_ + " is gone", status.ToString());
}

}  // namespace satchel
