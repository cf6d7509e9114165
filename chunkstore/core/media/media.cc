// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Finding out what a medium has, and reading it.
#include "chunkstore/core/media/media.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "chunkstore/core/format/chunk_status.h"
#include "chunkstore/core/format/description.h"
#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/media/fat_order.h"
#include "chunkstore/core/packs/pack_scan.h"

namespace satchel {
namespace {

constexpr char kFormat[] = "satchel-media";
constexpr int kVersion = 3;  // 2 had a folder for each service, 1 no generations
constexpr size_t kDescriptionLimit = 4096;

// Names that only take room: a FAT needs 20 entries of 32 bytes for one of 247 characters.
constexpr char kRoomName[] = "room-";
constexpr size_t kRoomLength = 19 * 13;
constexpr uint64_t kRoomBytes = 20 * 32;

// How many packs a medium may come to have: most are full, some are of small checkpoints.
constexpr uint64_t kPackAtLeast = uint64_t{16} << 20;  // bytes of most
constexpr uint64_t kFewestPacks = 64;
constexpr uint64_t kMostPacks = 8192;

std::string Described(const std::string& root) { return root + "/satchel/media.json"; }

Status MakeDescribed(Env* env, const std::string& root, const std::string& uuid) {
  const std::string text = MakeDescription(kFormat, kVersion, ", \"uuid\": \"" + uuid + "\"");
  return WriteNew(env, Described(root), text);
}

Status CheckDescribed(Env* env, const std::string& root) {
  return CheckDescription(env, Described(root), kFormat, kVersion, "the medium at " + root);
}

bool IsEmpty(Env* env, const std::string& folder) {
  std::vector<std::string> names;
  return !env->List(folder, &names).ok() || names.empty();
}

}  // namespace

Media::Media(Env* env, std::string root, std::array<uint8_t, 16> uuid)
    : env_(env), root_(std::move(root)), uuid_(uuid), reader_(env, PacksPath()) {}

std::string Media::PathOf(uint32_t pack, const char* suffix) const {
  char name[32];
  std::snprintf(name, sizeof name, "/%06u%s", pack, suffix);
  return PacksPath() + name;
}

Status Media::Init(Env* env, const std::string& root, const std::string& uuid) {
  const std::string what = "cannot make a medium at " + root;
  std::array<uint8_t, 16> bytes;
  if (!ParseUuid(uuid, &bytes)) return Status::Make(Kind::kUsage, what, uuid + " is no UUID");
  const std::string folder = root + "/satchel";
  if (env->Exists(Described(root))) {
    const bool cut_short = CheckDescribed(env, root).Is(Kind::kDamaged) &&
                           IsEmpty(env, folder + "/packs") && IsEmpty(env, folder + "/commits");
    if (!cut_short) return Status::Make(Kind::kExists, what, "there is one already");
    SATCHEL_RETURN_IF_ERROR(env->Remove(Described(root)));
    SATCHEL_RETURN_IF_ERROR(env->SyncDir(folder));
  }
  SATCHEL_RETURN_IF_ERROR(MakeFolders(env, root));
  return MakeDescribed(env, root, uuid);
}

// Folders that are there stay as they are. Durable on return: where media.json is, the folders are.
Status Media::MakeFolders(Env* env, const std::string& root) {
  const std::string top = root + "/satchel";
  const char* const folders[] = {"/packs", "/commits", "/checkpoints", "/log"};
  const auto there = [&](const std::string& name) { return env->Exists(top + name); };
  if (env->Exists(Described(root)) && std::all_of(std::begin(folders), std::end(folders), there)) {
    return {};
  }
  uint64_t free = 0;
  SATCHEL_RETURN_IF_ERROR(env->FreeBytes(root, &free));
  const uint64_t packs = std::min(kFewestPacks + free / kPackAtLeast, kMostPacks);
  SATCHEL_RETURN_IF_ERROR(env->MakeDir(top));
  for (const std::string name : folders) {
    SATCHEL_RETURN_IF_ERROR(env->MakeDir(top + name));
    const uint64_t room = name == "/packs" ? packs * kMediaPackRoom : kMediaFolderRoom;
    SATCHEL_RETURN_IF_ERROR(MakeRoom(env, top + name, room));
  }
  SATCHEL_RETURN_IF_ERROR(env->SyncDir(top));
  return env->SyncDir(root);
}

// Names are made and removed again, which costs a folder of FAT nothing but the room. Where that
// was cut off, it is done again.
Status Media::MakeRoom(Env* env, const std::string& folder, uint64_t bytes) {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env->List(folder, &names));
  const auto of_room = [](const std::string& name) { return name.rfind(kRoomName, 0) == 0; };
  if (!names.empty() && std::none_of(names.begin(), names.end(), of_room)) return {};
  for (uint64_t i = 0; i * kRoomBytes < bytes; ++i) {
    std::string name = kRoomName + std::to_string(i) + "-";
    name.resize(kRoomLength, '0');
    std::unique_ptr<File> file;
    const Status made = env->Open(folder + "/" + name, OpenMode::kCreate, &file);
    if (!made.ok() && !made.Is(Kind::kExists)) return made;
  }
  SATCHEL_RETURN_IF_ERROR(env->SyncDir(folder));
  SATCHEL_RETURN_IF_ERROR(env->List(folder, &names));
  for (const std::string& name : names) {
    if (of_room(name)) SATCHEL_RETURN_IF_ERROR(env->Remove(folder + "/" + name));
  }
  return env->SyncDir(folder);
}

Status Media::Redescribe(Env* env, const std::string& root, const std::string& uuid) {
  std::array<uint8_t, 16> bytes;
  const Status found = ReadUuid(env, root, &bytes);
  if (!found.Is(Kind::kDamaged) && !found.Is(Kind::kNotFound)) return found;
  std::vector<std::string> names;
  if (IsEmpty(env, root + "/satchel/packs")) return found;
  SATCHEL_RETURN_IF_ERROR(MakeFolders(env, root));
  SATCHEL_RETURN_IF_ERROR(env->List(root + "/satchel/commits", &names));
  std::string known = uuid;
  for (const std::string& name : names) {
    std::string data;
    MediaCommit commit;
    const Status read = ReadFile(env, root + "/satchel/commits/" + name, kMediaCommitLimit, &data);
    if (read.ok() && DecodeMediaCommit(data, &commit).ok()) known = FormatUuid(commit.uuid);
  }
  if (env->Exists(Described(root))) SATCHEL_RETURN_IF_ERROR(env->Remove(Described(root)));
  return MakeDescribed(env, root, known);
}

Status Media::ReadUuid(Env* env, const std::string& root, std::array<uint8_t, 16>* uuid) {
  SATCHEL_RETURN_IF_ERROR(CheckDescribed(env, root));
  std::string text;
  SATCHEL_RETURN_IF_ERROR(ReadFile(env, Described(root), kDescriptionLimit, &text));
  const std::string key = "\"uuid\": \"";
  const size_t at = text.find(key);
  if (at != std::string::npos && ParseUuid(text.substr(at + key.size(), 36), uuid)) return {};
  return Status::Make(Kind::kDamaged, "cannot open the medium at " + root,
                      Described(root) + " has no UUID");
}

Status Media::Open(Env* env, const std::string& root, std::unique_ptr<Media>* media) {
  std::array<uint8_t, 16> uuid;
  SATCHEL_RETURN_IF_ERROR(ReadUuid(env, root, &uuid));
  std::unique_ptr<Media> made(new Media(env, root, uuid));
  SATCHEL_RETURN_IF_ERROR(made->Judge(made->Load()));
  *media = std::move(made);
  return {};
}

Status Media::Load() {
  SATCHEL_RETURN_IF_ERROR(LoadCommits());
  return LoadPacks();
}

// A commit file of another medium, or of another name than its own, is none of this one's.
Status Media::LoadCommits() {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(AllowAbsent(env_->List(Below("commits"), &names)));
  std::vector<MediaGeneration> found;
  uint64_t last = 0;
  for (const std::string& name : names) {
    uint64_t number = 0;
    if (!ParseMediaCommitName(name, &number)) continue;
    last = std::max(last, number);
    std::string data;
    MediaGeneration generation;
    Status status = ReadFile(env_, Below("commits/") + name, kMediaCommitLimit, &data);
    if (status.ok()) status = DecodeMediaCommit(data, &generation.commit);
    if (status.Is(Kind::kUnsupported)) return status;
    SATCHEL_RETURN_IF_ERROR(Excuse(status));
    const MediaCommit& commit = generation.commit;
    if (!status.ok() || commit.generation != number || commit.uuid != uuid_) continue;
    generation.why = Lacks(commit);
    found.push_back(std::move(generation));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.commit.generation > b.commit.generation; });
  const MutexLock lock(&mutex_);
  generations_ = std::move(found);
  last_generation_ = last;
  return {};
}

// Empty if everything is there: packs with their sizes, files with their content.
std::string Media::Lacks(const MediaCommit& commit) {
  for (const MediaPack& pack : commit.packs) {
    std::unique_ptr<File> file;
    uint64_t size = 0;
    const std::string name = PackName(pack.number);
    if (!env_->Open(PathOf(pack.number, ".pack"), OpenMode::kRead, &file).ok()) {
      return name + " is not there";
    }
    if (!file->Size(&size).ok() || size != pack.size) return name + " is cut off";
  }
  for (const MediaFile& wanted : commit.files) {
    std::string data;
    if (!ReadFile(env_, Below(wanted.path), kMediaFileLimit, &data).ok()) {
      return wanted.path + " cannot be read";
    }
    if (data.size() != wanted.size || Sha256(data.data(), data.size()) != wanted.digest) {
      return wanted.path + " is damaged";
    }
  }
  return {};
}

// Packs that no commit names are of a writer that did not come to its end: what it completed has
// an index.
Status Media::LoadPacks() {
  std::vector<std::string> names;
  {
    const MutexLock lock(&mutex_);
    places_.Clear();
    packs_.clear();
  }
  SATCHEL_RETURN_IF_ERROR(AllowAbsent(env_->List(PacksPath(), &names)));
  const std::set<uint32_t> named = Named();
  for (const std::string& name : names) {
    uint32_t pack = 0;
    if (!ParsePackName(name, &pack)) continue;
    SATCHEL_RETURN_IF_ERROR(LoadPack(pack, named.count(pack) != 0));
  }
  return {};
}

Status Media::LoadPack(uint32_t pack, bool scan) {
  uint64_t size = 0;
  std::vector<MediaIndexEntry> entries;
  SATCHEL_RETURN_IF_ERROR(Excuse(ReadEntries(pack, scan, &size, &entries)));
  if (entries.empty()) return {};
  const MutexLock lock(&mutex_);
  if (places_.size() + entries.size() > kMediaChunkLimit) {
    return Status::Make(Kind::kDamaged, "cannot use the medium at " + root_,
                        "its indexes name too many chunks");
  }
  AddEntries(pack, size, entries);
  return {};
}

// From the index; without a usable one, if `scan`, from the pack, as far as it can be read.
Status Media::ReadEntries(uint32_t pack, bool scan, uint64_t* size,
                          std::vector<MediaIndexEntry>* entries) {
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env_->Open(PathOf(pack, ".pack"), OpenMode::kRead, &file));
  SATCHEL_RETURN_IF_ERROR(file->Size(size));
  const Status status = ReadIndex(pack, *size, entries);
  if (status.ok()) return {};
  entries->clear();
  SATCHEL_RETURN_IF_ERROR(Excuse(status));
  return scan ? ScanInto(pack, entries) : Status();
}

Status Media::ReadIndex(uint32_t pack, uint64_t size, std::vector<MediaIndexEntry>* entries) {
  std::string data;
  SATCHEL_RETURN_IF_ERROR(ReadFile(env_, PathOf(pack, ".idx"), kMediaIndexLimit, &data));
  uint64_t of = 0;
  SATCHEL_RETURN_IF_ERROR(DecodeMediaIndex(data, entries, &of));
  return of == size ? Status() : Status::Make(Kind::kDamaged, "it is the index of another pack");
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

void Media::AddEntries(uint32_t pack, uint64_t size, const std::vector<MediaIndexEntry>& entries) {
  packs_[pack] = {size, static_cast<uint32_t>(entries.size())};
  for (const MediaIndexEntry& entry : entries) {
    const Location here{pack, entry.offset, entry.length};
    const auto [place, made] = places_.Insert(entry.ref, here);
    if (!made && place->pack < pack) *place = here;  // the newest copy, which may be in order
  }
}

std::map<uint32_t, Media::PackInfo> Media::packs() {
  const MutexLock lock(&mutex_);
  return packs_;
}

std::set<uint32_t> Media::Named() {
  const MutexLock lock(&mutex_);
  std::set<uint32_t> named;
  for (const MediaGeneration& generation : generations_) {
    for (const MediaPack& pack : generation.commit.packs) named.insert(pack.number);
  }
  return named;
}

std::vector<MediaGeneration> Media::generations() {
  const MutexLock lock(&mutex_);
  return generations_;
}

void Media::Has(const ChunkRef* refs, size_t n, bool* has) {
  const MutexLock lock(&mutex_);
  for (size_t i = 0; i < n; ++i) has[i] = refs[i].IsZero() || places_.Find(refs[i]) != nullptr;
}

Status Media::Records(const ChunkRef* refs, size_t n, std::string* out, MediaNotes* notes) {
  struct RecordPlace {
    Location at;
    size_t which;
  };
  std::vector<RecordPlace> wanted;
  {
    const MutexLock lock(&mutex_);
    for (size_t i = 0; i < n; ++i) {
      const Location* found = places_.Find(refs[i]);
      if (found != nullptr) wanted.push_back({*found, i});
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const RecordPlace& a, const RecordPlace& b) {
    return std::tie(a.at.pack, a.at.offset) < std::tie(b.at.pack, b.at.offset);
  });
  std::vector<std::string> records(n);
  uint8_t buffer[kMaxRecordSize];
  for (const RecordPlace& each : wanted) {
    RecordView record;
    bool whole = false;
    SATCHEL_RETURN_IF_ERROR(ReadWhole(refs[each.which], each.at, buffer, &record, &whole, notes));
    if (whole) records[each.which].assign(reinterpret_cast<const char*>(buffer), record.size());
  }
  for (const std::string& record : records) *out += record;
  return {};
}

Status Media::ReadWhole(const ChunkRef& ref, const Location& at, uint8_t* buffer,
                        RecordView* record, bool* whole, MediaNotes* notes) {
  const Status status = reader_.ReadRaw(at, buffer, record);
  *whole = status.ok() && record->ref == ref;
  if (*whole) return {};
  SATCHEL_RETURN_IF_ERROR(Excuse(status));
  notes->damaged.push_back(ref);
  return {};
}

Status Media::GetPage(const ChunkRef& ref, unsigned level, std::shared_ptr<const Page>* page) {
  Location at;
  {
    const MutexLock lock(&mutex_);
    const Location* found = places_.Find(ref);
    if (found == nullptr) return MissingChunk(ref, "the medium lacks it");
    at = *found;
  }
  uint8_t buffer[kMaxRecordSize];
  uint8_t block[kBlockSize];
  RecordView record;
  bool whole = false;
  MediaNotes notes;
  SATCHEL_RETURN_IF_ERROR(ReadWhole(ref, at, buffer, &record, &whole, &notes));
  if (!whole || !VerifyRecord(record, block).ok()) {
    return MissingChunk(ref, "its record on the medium is damaged");
  }
  auto decoded = std::make_shared<Page>();
  SATCHEL_RETURN_IF_ERROR(DecodePage(ref, block, level, decoded.get()));
  *page = std::move(decoded);
  return {};
}

Status Media::Missing(const std::vector<TableRoot>& roots, std::vector<ChunkRef>* refs) {
  const auto has = [this](const ChunkRef* found, size_t n, bool* here) {
    Has(found, n, here);
    return Status();
  };
  return Judge(CollectMissing(this, roots, has, refs));
}

// Above every number that is or was in use.
Status Media::NextPack(uint32_t* pack) {
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env_->List(PacksPath(), &names));
  *pack = 1;
  for (const uint32_t number : Named()) *pack = std::max(*pack, number + 1);
  for (const std::string& name : names) {
    uint32_t number = 0;
    const std::string as_pack = name.substr(0, name.find('.')) + ".pack";
    if (ParsePackName(as_pack, &number)) *pack = std::max(*pack, number + 1);
  }
  return {};
}

// False if the newest generation that this object knows is not there, or is another one of its
// number. A damaged one says nothing, and neither does a folder that is lost.
bool Media::HasNewest() {
  const std::vector<MediaGeneration> known = generations();
  if (known.empty() || !env_->Exists(Below("commits"))) return true;
  const MediaCommit& newest = known.front().commit;
  std::string data;
  const Status read = ReadFile(env_, CommitPath(newest.generation), kMediaCommitLimit, &data);
  if (!read.ok()) return !read.Is(Kind::kNotFound);
  MediaCommit there;
  return !DecodeMediaCommit(data, &there).ok() || there.created == newest.created;
}

Status Media::FreeBytes(uint64_t* bytes) { return Judge(env_->FreeBytes(root_, bytes)); }

Status Media::ReadSmall(const std::string& path, std::string* data) {
  if (!IsMediaPath(path)) {
    return Status::Make(Kind::kUsage, "cannot read " + path, "a medium has no such file");
  }
  return Judge(ReadFile(env_, Below(path), kMediaFileLimit, data));
}

size_t Media::chunks() {
  const MutexLock lock(&mutex_);
  return places_.size();
}

Status Media::Excuse(const Status& status) {
  if (status.ok() || status.Is(Kind::kDamaged)) return {};
  std::array<uint8_t, 16> uuid;
  const bool here = !status.Is(Kind::kGone) && ReadUuid(env_, root_, &uuid).ok() && uuid == uuid_;
  if (here) return {};
  return Status::Make(Kind::kGone, "the medium at " + root_ + " is gone", status.ToString());
}

Status Media::Judge(const Status& status) {
  if (!status.Is(Kind::kNotFound)) return status;
  if (env_->Exists(Described(root_))) {
    return Status::Make(Kind::kDamaged, "the medium at " + root_ + " is damaged",
                        status.ToString());
  }
  return Status::Make(Kind::kGone, "the medium at " + root_ + " is gone", status.ToString());
}

}  // namespace satchel
