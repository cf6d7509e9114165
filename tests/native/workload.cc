// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/native/workload.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "chunkstore/core/format/hash.h"

namespace satchel::sim {
namespace {

const uint8_t* Bytes(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// A block map of `blocks` in a file that nobody else sees.
Status MakeMap(uint64_t blocks, std::unique_ptr<BlockMap>* map) {
  static std::atomic<unsigned> number{0};
  const std::string path =
      "/dev/shm/satchel-map-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  SATCHEL_RETURN_IF_ERROR(BlockMap::Create(path, blocks, map));
  unlink(path.c_str());
  return {};
}

constexpr SealKey kFirstKey = {1};
constexpr SealKey kSecondKey = {2};

constexpr char kDigits[] = "0123456789abcdef";

std::string Hex(const ChunkRef& ref) {
  std::string text;
  for (const uint8_t byte : ref.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

ChunkOptions SmallOptions() {
  ChunkOptions options;
  options.pack_limit = 60'000;
  return options;
}

Status SettleQuickly(Store* store, SettleReport* report) {
  SettleOptions options;
  options.level = 1;
  return store->Settle(options, nullptr, report);
}

std::string MakeBlock(uint64_t seed, uint64_t number) {
  Random random(seed * 1'000'003 + number);
  const uint64_t kind = random.Below(10);
  std::string block(kBlockSize, '\0');
  if (kind < 2) return block;
  if (kind < 7) {
    const std::string line = std::to_string(seed) + " " + std::to_string(number) + " satchel\n";
    for (size_t i = 0; i < block.size(); ++i) block[i] = line[i % line.size()];
    return block;
  }
  for (char& byte : block) byte = static_cast<char>(random.Next());
  return block;
}

std::string MakeContent(uint64_t seed, uint64_t blocks) {
  std::string content;
  for (uint64_t i = 0; i < blocks; ++i) content += MakeBlock(seed, i);
  return content;
}

Image EmptyDisk() {
  SimDisk disk;
  (void)disk.MakeDir(kNamesPath);
  (void)disk.MakeDir(kMediaPath);
  return disk.Live();
}

std::string NameText(const TableRoot& root) {
  return std::to_string(root.size) + " " + Hex(root.ref) + "\n";
}

Status WriteName(Env* env, const std::string& name, const TableRoot& root) {
  return WriteFileDurably(env, std::string(kNamesPath) + "/" + name, NameText(root));
}

bool ParseName(const std::string& text, TableRoot* root) {
  unsigned long long size = 0;
  char hex[2 * kChunkRefSize + 1] = "";
  if (std::sscanf(text.c_str(), "%llu %104s", &size, hex) != 2) return false;
  if (std::strlen(hex) != 2 * kChunkRefSize || text.back() != '\n') return false;
  root->size = size;
  for (size_t i = 0; i < kChunkRefSize; ++i) {
    const char* const high = std::strchr(kDigits, hex[2 * i]);
    const char* const low = std::strchr(kDigits, hex[2 * i + 1]);
    if (high == nullptr || low == nullptr) return false;
    root->ref.bytes[i] = static_cast<uint8_t>((high - kDigits) << 4 | (low - kDigits));
  }
  return true;
}

// One volume in six has a table of two leaves. Three stores in four take what comes in raw, as
// homes do.
Workload::Workload(SimDisk* disk, Promises* promises, uint64_t life)
    : disk_(disk), promises_(promises), life_(life) {
  if (life == 0) return;
  Random random(life);
  blocks_ = random.Below(6) == 0 ? 80 + random.Below(40) : 8 + random.Below(40);
  options_.pack_limit = 20'000 + random.Below(60'000);
  options_.level = random.Chance(75) ? 0 : 1;
  if (life % 4 < 2) return;
  promises->media_keys = {kSecondKey, kFirstKey};
  UseKeys({kFirstKey});
}

void Workload::UseKeys(std::vector<SealKey> keys) {
  media_.reset();
  sealed_ = std::make_unique<SealedEnv>(disk_, std::move(keys));
}

Status Workload::NeedStore() const {
  return store_ != nullptr ? Status() : Status::Make(Kind::kState, "the store is not open");
}

Status Workload::OpenStore() {
  store_.reset();
  SATCHEL_RETURN_IF_ERROR(Store::Open(disk_, kStorePath, options_, &store_));
  if (attached_ != nullptr) store_->Regard(attached_.get());
  return {};
}

Status Workload::PutChunks(uint64_t seed, size_t n) {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  const std::string content = MakeContent(life_ * 16 + seed, n);
  std::vector<ChunkRef> refs(n);
  SATCHEL_RETURN_IF_ERROR(store_->Put(Bytes(content), n, refs.data()));
  SATCHEL_RETURN_IF_ERROR(store_->Sync());
  for (size_t i = 0; i < n; ++i) {
    if (refs[i].IsZero()) continue;
    const auto block = std::make_shared<std::string>(content.substr(i * kBlockSize, kBlockSize));
    promises_->chunks.push_back({refs[i], block, {disk_->Position()}});
  }
  return {};
}

Status Workload::Name(const std::string& name, const TableRoot& root, std::string content) {
  PromisedVolume& volume = promises_->volumes[name];
  volume.root = root;
  volume.content = std::make_shared<std::string>(std::move(content));
  SATCHEL_RETURN_IF_ERROR(WriteName(disk_, name, root));
  volume.when.from = disk_->Position();
  return {};
}

Status Workload::Import(const std::string& name, uint64_t seed, uint64_t blocks,
                        const std::string& base) {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  const std::string content = MakeContent(life_ * 16 + seed, blocks);
  const auto source = MemorySource(Bytes(content), content.size());
  const auto found = promises_->volumes.find(base);
  const TableRoot* hint = found == promises_->volumes.end() ? nullptr : &found->second.root;
  TableRoot root;
  SATCHEL_RETURN_IF_ERROR(store_->Import(source.get(), hint, nullptr, &root));
  return Name(name, root, content);
}

// As for a machine that wrote some blocks since `from`.
Status Workload::Checkpoint(const std::string& from, const std::string& to, uint64_t seed) {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  const auto found = promises_->volumes.find(from);
  if (found == promises_->volumes.end()) return Status::Make(Kind::kState, from + " is not there");
  const TableRoot root = found->second.root;
  std::string content = *found->second.content;
  std::unique_ptr<BlockMap> map;
  SATCHEL_RETURN_IF_ERROR(MakeMap(root.blocks(), &map));
  std::vector<ChunkRef> missing;
  SATCHEL_RETURN_IF_ERROR(store_->Resolve(root, map.get(), 0, root.blocks(), &missing));
  SimDisk scratch;
  std::unique_ptr<File> overlay;
  SATCHEL_RETURN_IF_ERROR(scratch.Open("/overlay", OpenMode::kCreate, &overlay));
  for (uint64_t block = seed % 7; block < root.blocks(); block += 7) {
    const std::string bytes = MakeBlock(life_ * 16 + seed, block);
    content.replace(block * kBlockSize, kBlockSize, bytes);
    SATCHEL_RETURN_IF_ERROR(overlay->WriteAt(block * kBlockSize, bytes.data(), bytes.size()));
    map->MarkDirty(block);
  }
  TableRoot changed;
  SATCHEL_RETURN_IF_ERROR(store_->Commit(root, map.get(), overlay.get(), &changed));
  SATCHEL_RETURN_IF_ERROR(store_->Sync());
  return Name(to, changed, content);
}

Status Workload::Forget(const std::string& name) {
  const auto found = promises_->volumes.find(name);
  if (found == promises_->volumes.end()) return Status::Make(Kind::kState, name + " is not there");
  found->second.when.until = disk_->Position();
  SATCHEL_RETURN_IF_ERROR(disk_->Remove(std::string(kNamesPath) + "/" + name));
  return disk_->SyncDir(kNamesPath);
}

Status Workload::Prune() {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  std::vector<TableRoot> keep;
  SATCHEL_RETURN_IF_ERROR(KeepNamed(&keep));
  PruneReport report;
  return store_->Prune(keep, {}, false, false, nullptr, &report);
}

// As on a disk that others have filled: no machine runs, nobody has the store.
Status Workload::Relieve() {
  attached_.reset();
  store_.reset();
  promises_->relieved.from = disk_->Position();
  std::vector<TableRoot> keep;
  SATCHEL_RETURN_IF_ERROR(KeepNamed(&keep));
  uint64_t freed = 0;
  std::unique_ptr<Store> store;
  SATCHEL_RETURN_IF_ERROR(Store::OpenToRelieve(disk_, kStorePath, &store));
  SATCHEL_RETURN_IF_ERROR(store->RemoveDead(keep, &freed));
  store.reset();
  return OpenStore();
}

// What has a name, as home does; a name that is gone has to stay gone.
Status Workload::KeepNamed(std::vector<TableRoot>* keep) {
  promises_->PutIsGarbage(disk_->Position());
  SATCHEL_RETURN_IF_ERROR(disk_->SyncDir(kNamesPath));
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(disk_->List(kNamesPath, &names));
  for (const std::string& name : names) {
    std::string text;
    SATCHEL_RETURN_IF_ERROR(ReadFile(disk_, std::string(kNamesPath) + "/" + name, 4096, &text));
    TableRoot root;
    if (ParseName(text, &root)) keep->push_back(root);
  }
  return {};
}

Status Workload::Verify() {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  VerifyReport report;
  SATCHEL_RETURN_IF_ERROR(store_->Verify(nullptr, &report));
  if (report.bad.empty() && report.dangling.empty()) return {};
  return Status::Make(Kind::kDamaged, "verify found damage");
}

// From now on the volume is in use, by a process that outlives this store's.
Status Workload::Attach(const std::string& name) {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  const auto found = promises_->volumes.find(name);
  if (found == promises_->volumes.end()) return Status::Make(Kind::kState, name + " is not there");
  const TableRoot& root = found->second.root;
  SATCHEL_RETURN_IF_ERROR(MakeMap(root.blocks(), &attached_));
  attached_content_ = found->second.content;
  std::vector<ChunkRef> missing;
  return store_->Resolve(root, attached_.get(), 0, root.blocks(), &missing);
}

std::string Workload::LookAtAttached() const {
  if (attached_ == nullptr) return {};
  PackReader reader(disk_, std::string(kStorePath) + "/packs");
  std::string block(kBlockSize, '\0');
  for (uint64_t i = 0; i < attached_->blocks(); ++i) {
    const BlockEntry entry = attached_->Load(i);
    if (entry.state != BlockState::kPacked) continue;
    const Status status = reader.ReadBlock(entry.at, reinterpret_cast<uint8_t*>(block.data()));
    if (!status.ok()) return "block " + std::to_string(i) + " is lost: " + status.ToString();
    if (attached_content_->compare(i * kBlockSize, kBlockSize, block) != 0) {
      return "block " + std::to_string(i) + " is WRONG";
    }
  }
  return {};
}

// Nothing is put meanwhile, so one call settles all.
Status Workload::Settle() {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  SettleReport report;
  SATCHEL_RETURN_IF_ERROR(SettleQuickly(store_.get(), &report));
  StoreStats stats;
  SATCHEL_RETURN_IF_ERROR(store_->Stats(&stats));
  if (stats.settled != stats.chunks || report.damaged > 0) {
    return Status::Make(Kind::kDamaged, "settling left chunks in records");
  }
  return report.pinned == 0 ? Status() : Status::Make(Kind::kState, "settling left a pack");
}

Status Workload::Reachable(const std::string& name, std::vector<ChunkRef>* refs) {
  SATCHEL_RETURN_IF_ERROR(NeedStore());
  const auto found = promises_->volumes.find(name);
  if (found == promises_->volumes.end()) return Status::Make(Kind::kState, name + " is not there");
  return store_->Reachable({found->second.root}, refs);
}

Status Workload::OpenMedia() {
  media_.reset();
  if (!disk_->Exists(std::string(kMediaPath) + "/satchel/media.json")) {
    SATCHEL_RETURN_IF_ERROR(
        Media::Init(MediaEnv(), kMediaPath, "00000000-0000-4000-8000-000000000000"));
    promises_->media.from = disk_->Position();
  }
  return Media::Open(MediaEnv(), kMediaPath, &media_);
}

// A generation of one volume, whose name stands for a manifest.
Status Workload::Carry(const std::string& name) {
  std::vector<ChunkRef> refs;
  SATCHEL_RETURN_IF_ERROR(Reachable(name, &refs));
  if (media_ == nullptr) return Status::Make(Kind::kState, "the medium is not open");
  uint64_t written = 0;
  MediaNotes notes;
  SATCHEL_RETURN_IF_ERROR(store_->WithChunks([&](Chunks* chunks) {
    return media_->Add(chunks, refs.data(), refs.size(), 0, nullptr, &written, &notes);
  }));
  RefSet kept;
  for (const ChunkRef& ref : refs) kept.Insert(ref, {});
  for (PromisedChunk& chunk : promises_->on_media) {
    if (kept.Find(chunk.ref) == nullptr) {
      chunk.when.until = std::min(chunk.when.until, disk_->Position());
    }
  }
  const PromisedVolume& volume = promises_->volumes[name];
  const std::string path = "checkpoints/" + name + "-1.json";
  SATCHEL_RETURN_IF_ERROR(media_->PutFile(path, NameText(volume.root)));
  MediaDraft draft;
  draft.paths = {path};
  draft.roots = {volume.root};
  uint64_t generation = 0;
  uint64_t freed = 0;
  SATCHEL_RETURN_IF_ERROR(media_->Commit(draft, 0, &generation, &freed, &notes));
  promises_->generations.push_back({generation, {disk_->Position()}});
  for (const ChunkRef& ref : refs) {
    auto block = std::make_shared<std::string>(kBlockSize, '\0');
    SATCHEL_RETURN_IF_ERROR(store_->Get(ref, reinterpret_cast<uint8_t*>(block->data())));
    promises_->on_media.push_back({ref, block, {disk_->Position()}});
  }
  return {};
}

std::vector<Workload::Step> Workload::AllSteps() {
  const auto create = [this] {
    SATCHEL_RETURN_IF_ERROR(Store::Create(disk_, kStorePath));
    promises_->store.from = disk_->Position();
    return Status();
  };
  const auto rebuild = [this] {
    SATCHEL_RETURN_IF_ERROR(NeedStore());
    return store_->RebuildIndex(nullptr);
  };
  const auto reopen_medium = [this] {
    if (sealed_ != nullptr) UseKeys(promises_->media_keys);
    return OpenMedia();
  };
  return {
      {"create", create},
      {"open", [this] { return OpenStore(); }},
      {"put", [this] { return PutChunks(1, 12); }, true},
      {"import a", [this] { return Import("a", 2, blocks_, ""); }},
      {"checkpoint a to b", [this] { return Checkpoint("a", "b", 3); }},
      {"init medium", [this] { return OpenMedia(); }},
      {"carry b", [this] { return Carry("b"); }},
      {"reopen", [this] { return OpenStore(); }, true},
      {"import c", [this] { return Import("c", 4, blocks_ / 2 + 5, "b"); }},
      {"attach c", [this] { return Attach("c"); }, true},
      {"settle", [this] { return Settle(); }, true},
      {"put more", [this] { return PutChunks(5, 5); }, true},
      {"forget a", [this] { return Forget("a"); }, true},
      {"prune", [this] { return Prune(); }, true},
      {"put after prune", [this] { return PutChunks(6, 5); }, true},
      {"verify", [this] { return Verify(); }, true},
      {"checkpoint b to d", [this] { return Checkpoint("b", "d", 5); }},
      {"carry d", [this] { return Carry("d"); }},
      {"forget b", [this] { return Forget("b"); }},
      {"rebuild", rebuild, true},
      {"prune again", [this] { return Prune(); }, true},
      {"import a again", [this] { return Import("e", 2, blocks_, "d"); }},
      {"settle again", [this] { return Settle(); }, true},
      {"carry e", [this] { return Carry("e"); }},
      {"reopen medium", reopen_medium, true},
      {"carry c", [this] { return Carry("c"); }},
      {"reopen", [this] { return OpenStore(); }, true},
      {"put last", [this] { return PutChunks(7, 3); }, true},
      {"forget e", [this] { return Forget("e"); }},
      {"relieve", [this] { return Relieve(); }, true},
      {"import e again", [this] { return Import("f", 2, blocks_, "d"); }},
      {"prune at last", [this] { return Prune(); }, true},
  };
}

std::vector<Workload::Step> Workload::Steps() {
  std::vector<Step> steps;
  Random random(life_ * 16);
  for (Step& step : AllSteps()) {
    if (life_ == 0 || !step.may_lack || random.Chance(75)) steps.push_back(std::move(step));
  }
  return steps;
}

Status RunAll(SimDisk* disk, Promises* promises, uint64_t life) {
  Workload workload(disk, promises, life);
  for (const Workload::Step& step : workload.Steps()) {
    const Status status = step.act();
    if (!status.ok()) return Status::Make(status.kind(), step.name, status.ToString());
  }
  return {};
}

}  // namespace satchel::sim
