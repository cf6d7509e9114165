// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/index/index.h"

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "chunkstore/core/index/index_env.h"

namespace satchel {
namespace {

constexpr char kEndKey[] = "end";
constexpr size_t kValueSize = 8;

#pragma pack(push, 1)
struct EndValue {
  uint32_t pack;
  uint64_t offset;
};
#pragma pack(pop)
static_assert(sizeof(EndValue) == 12, "as docs/formats/store.md has it");

// What Destroy is about to remove has this behind its name.
constexpr char kDead[] = ".dead";

std::string Parent(const std::string& path) { return path.substr(0, path.rfind('/')); }

Status RemoveDead(Env* env, const std::string& path) {
  const std::string dead = path + kDead;
  if (!env->Exists(dead)) return {};
  std::vector<std::string> names;
  SATCHEL_RETURN_IF_ERROR(env->List(dead, &names));
  for (const std::string& name : names) SATCHEL_RETURN_IF_ERROR(env->Remove(dead + "/" + name));
  return env->RemoveDir(dead);
}

constexpr size_t kCutSize = kCutIdSize + kCutDigestSize;

leveldb::Slice Key(const ChunkRef& ref) {
  return {reinterpret_cast<const char*>(ref.bytes), kChunkRefSize};
}

// The key of a chunk in a frame.
class CutKey {
 public:
  explicit CutKey(const ChunkRef& ref) {
    std::memcpy(bytes_, ref.id(), kCutIdSize);
    std::memcpy(bytes_ + kCutIdSize, ref.digest(), kCutDigestSize);
  }

  operator leveldb::Slice() const { return {bytes_, sizeof bytes_}; }

 private:
  char bytes_[kCutSize];
};

bool ParseKey(const leveldb::Slice& key, ChunkRef* ref) {
  *ref = kZeroRef;
  if (key.size() == kChunkRefSize) {
    std::memcpy(ref->bytes, key.data(), kChunkRefSize);
  } else if (key.size() == kCutSize) {
    std::memcpy(ref->id(), key.data(), kCutIdSize);
    std::memcpy(ref->digest(), key.data() + kCutIdSize, kCutDigestSize);
  }
  return !ref->IsZero();
}

// A wrong place would lead the plugin to a whole record of another chunk.
leveldb::ReadOptions Checked() {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  return options;
}

Status FromLevelDb(const leveldb::Status& status) {
  if (status.ok()) return {};
  const std::string why = status.ToString();
  Kind kind = status.IsCorruption() ? Kind::kDamaged : Kind::kIo;
  if (status.IsIOError() && why.find(kNoRoomMark) != std::string::npos) kind = Kind::kFull;
  if (status.IsIOError() && why.find(kDeniedMark) != std::string::npos) kind = Kind::kDenied;
  return Status::Make(kind, "cannot use the chunk index", why);
}

Status DecodeValue(const leveldb::Slice& value, Location* at) {
  if (value.size() != kValueSize) {
    return Status::Make(Kind::kDamaged, "cannot use the chunk index", "a value has a wrong size");
  }
  uint64_t word;
  std::memcpy(&word, value.data(), sizeof word);
  *at = DecodeLocation(word);
  return {};
}

}  // namespace

Index::~Index() = default;

Status Index::Open(Env* env, const std::string& path, std::unique_ptr<Index>* index) {
  if (!env->Exists(path)) {
    SATCHEL_RETURN_IF_ERROR(env->MakeDir(path));
    SATCHEL_RETURN_IF_ERROR(env->SyncDir(Parent(path)));
  }
  std::unique_ptr<Index> made(new Index);
  made->env_ = NewIndexEnv(env);
  made->filter_.reset(leveldb::NewBloomFilterPolicy(10));
  made->cache_.reset(leveldb::NewLRUCache(1 << 20));
  leveldb::Options options;
  options.env = made->env_.get();
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.max_open_files = 64;
  options.compression = leveldb::kNoCompression;  // hashes do not compress
  options.filter_policy = made->filter_.get();
  options.block_cache = made->cache_.get();
  leveldb::DB* db = nullptr;
  const leveldb::Status status = leveldb::DB::Open(options, path, &db);
  // A lost CURRENT or table file is reported as an argument or an I/O error that names it.
  if (status.IsInvalidArgument() || status.IsNotFound()) {
    return Status::Make(Kind::kDamaged, "cannot use the chunk index", status.ToString());
  }
  SATCHEL_RETURN_IF_ERROR(FromLevelDb(status));
  made->db_.reset(db);
  *index = std::move(made);
  return {};
}

Status Index::OpenToRead(ReadingEnv* env, const std::string& path, std::unique_ptr<Index>* index) {
  SATCHEL_RETURN_IF_ERROR(Open(env, path, index));
  env->Refuse();
  return {};
}

// Of a half removed database LevelDB would take up what is left: a log without the tables before it
// has the newest end and few of the chunks.
Status Index::Destroy(Env* env, const std::string& path) {
  SATCHEL_RETURN_IF_ERROR(RemoveDead(env, path));
  if (!env->Exists(path)) return {};
  SATCHEL_RETURN_IF_ERROR(env->Rename(path, path + kDead));
  SATCHEL_RETURN_IF_ERROR(env->SyncDir(Parent(path)));
  return RemoveDead(env, path);
}

Status Index::Get(const ChunkRef& ref, Location* at, bool* found) const {
  std::string value;
  leveldb::Status status = db_->Get(Checked(), CutKey(ref), &value);
  if (status.IsNotFound() && ref.IsCut()) return GetRecord(ref, at, found);
  if (status.IsNotFound()) status = db_->Get(Checked(), Key(ref), &value);
  *found = status.ok();
  if (status.IsNotFound()) return {};
  SATCHEL_RETURN_IF_ERROR(FromLevelDb(status));
  return DecodeValue(value, at);
}

// Of a chunk of which only the cut reference is known.
Status Index::GetRecord(const ChunkRef& cut, Location* at, bool* found) const {
  const leveldb::Slice name(reinterpret_cast<const char*>(cut.id()), kCutIdSize);
  const std::unique_ptr<leveldb::Iterator> it(db_->NewIterator(Checked()));
  *found = false;
  ChunkRef ref;
  for (it->Seek(name); it->Valid() && it->key().starts_with(name); it->Next()) {
    if (!ParseKey(it->key(), &ref) || ref.Cut() != cut) continue;
    *found = true;
    return DecodeValue(it->value(), at);
  }
  return FromLevelDb(it->status());
}

Status Index::HasNamesake(const ChunkRef& ref, bool* found) const {
  const leveldb::Slice name(reinterpret_cast<const char*>(ref.id()), kChunkIdSize);
  const std::unique_ptr<leveldb::Iterator> it(db_->NewIterator(Checked()));
  *found = false;
  for (it->Seek(name); it->Valid() && it->key().starts_with(name) && !*found; it->Next()) {
    *found = it->key() != Key(ref);
  }
  return FromLevelDb(it->status());
}

Status Index::Write(const std::vector<Entry>& put, const std::vector<ChunkRef>& erase,
                    PackPosition end) {
  return Write(put, erase, &end);
}

Status Index::Fill(const std::vector<Entry>& put) { return Write(put, OfFrames(put), nullptr); }

std::vector<ChunkRef> Index::OfFrames(const std::vector<Entry>& put) {
  std::vector<ChunkRef> refs;
  for (const Entry& entry : put) {
    if (!entry.value.in_frame()) refs.push_back(entry.ref.Cut());
  }
  return refs;
}

Status Index::Write(const std::vector<Entry>& put, const std::vector<ChunkRef>& erase,
                    const PackPosition* end) {
  leveldb::WriteBatch batch;
  char value[kValueSize];
  for (const ChunkRef& ref : erase) {
    batch.Delete(CutKey(ref));
    if (!ref.IsCut()) batch.Delete(Key(ref));
  }
  // In the order of the keys: neighbours in the batch are neighbours in LevelDB's memory.
  std::vector<uint32_t> order(put.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return put[a].ref < put[b].ref; });
  for (const uint32_t i : order) {
    const uint64_t word = EncodeLocation(put[i].value);
    std::memcpy(value, &word, sizeof word);
    const ChunkRef& ref = put[i].ref;
    if (put[i].value.in_frame()) {
      batch.Put(CutKey(ref), leveldb::Slice(value, sizeof value));
      batch.Delete(Key(ref));
    } else {
      batch.Put(Key(ref), leveldb::Slice(value, sizeof value));
    }
  }
  if (end != nullptr) {
    const EndValue position{end->pack, end->offset};
    batch.Put(kEndKey, {reinterpret_cast<const char*>(&position), sizeof position});
  }
  leveldb::WriteOptions options;
  options.sync = true;
  return FromLevelDb(db_->Write(options, &batch));
}

Status Index::ForEachIn(unsigned part, unsigned parts, const Visit& visit) const {
  leveldb::ReadOptions options = Checked();
  options.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> it(db_->NewIterator(options));
  const auto first = static_cast<char>(part * 256 / parts);
  const unsigned end = (part + 1) * 256 / parts;
  for (it->Seek(leveldb::Slice(&first, 1)); it->Valid(); it->Next()) {
    if (static_cast<uint8_t>(it->key()[0]) >= end) break;
    ChunkRef ref;
    Location at;
    if (!ParseKey(it->key(), &ref)) continue;
    SATCHEL_RETURN_IF_ERROR(DecodeValue(it->value(), &at));
    SATCHEL_RETURN_IF_ERROR(visit(ref, at));
  }
  return FromLevelDb(it->status());
}

uint64_t Index::Bytes() const {
  const std::string last(kChunkRefSize, '\xff');
  const leveldb::Range all{leveldb::Slice(), last};
  uint64_t bytes = 0;
  db_->GetApproximateSizes(&all, 1, &bytes);
  return bytes;
}

// LevelDB tells of an error in a compaction when it refuses the next write, one without content
// too.
Status Index::Compact() {
  db_->CompactRange(nullptr, nullptr);
  leveldb::WriteBatch nothing;
  return FromLevelDb(db_->Write({}, &nothing));
}

Status Index::End(PackPosition* end, bool* complete) const {
  *end = PackPosition();
  std::string value;
  const leveldb::Status status = db_->Get(Checked(), kEndKey, &value);
  if (complete != nullptr) *complete = status.ok();
  if (status.IsNotFound()) return {};
  SATCHEL_RETURN_IF_ERROR(FromLevelDb(status));
  EndValue position;
  if (value.size() != sizeof position) {
    return Status::Make(Kind::kDamaged, "cannot use the chunk index", "its end has a wrong size");
  }
  std::memcpy(&position, value.data(), sizeof position);
  *end = PackPosition{position.pack, position.offset};
  return {};
}

}  // namespace satchel
