// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/native/sim_disk.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "chunkstore/core/format/hash.h"

namespace satchel::sim {
namespace {

constexpr uint64_t kRoot = 1;
constexpr uint64_t kFreeBytes = uint64_t{1} << 28;

// The content of `node`, unshared, to be changed.
std::string* Own(Node* node) {
  node->digest = 0;
  if (node->data.use_count() > 1) node->data = std::make_shared<std::string>(*node->data);
  std::atomic_thread_fence(std::memory_order_acquire);
  return node->data.get();
}

void Split(const std::string& path, std::string* folder, std::string* name) {
  const void* const last = memrchr(path.data(), '/', path.size());
  assert(last != nullptr);
  const auto slash = static_cast<size_t>(static_cast<const char*>(last) - path.data());
  *folder = path.substr(0, slash);
  *name = path.substr(slash + 1);
}

uint64_t FindNode(const Image& image, const std::string& path) {
  uint64_t at = kRoot;
  for (size_t begin = 0; begin < path.size();) {
    if (path[begin] == '/') {
      ++begin;
      continue;
    }
    const size_t end = std::min(path.find('/', begin), path.size());
    const auto& names = image.nodes.at(at).names;
    const auto found = names.find(std::string_view(path).substr(begin, end - begin));
    if (found == names.end()) return 0;
    at = found->second;
    begin = end;
  }
  return at;
}

void ListFiles(const Image& image, uint64_t folder, const std::string& prefix,
               std::vector<std::string>* files) {
  for (const auto& [name, target] : image.nodes.at(folder).names) {
    const std::string path = prefix + "/" + name;
    if (image.nodes.at(target).folder) {
      ListFiles(image, target, path, files);
    } else {
      files->push_back(path);
    }
  }
}

uint64_t Mix(uint64_t digest, uint64_t with) { return Random(digest ^ with).Next(); }

uint64_t DigestOf(const Node& file) {
  if (file.digest == 0) file.digest = Checksum64(file.data->data(), file.data->size());
  return file.digest;
}

uint64_t DigestFolder(const Image& image, uint64_t folder) {
  uint64_t digest = 1;
  for (const auto& [name, target] : image.nodes.at(folder).names) {
    const Node& node = image.nodes.at(target);
    digest = Mix(digest, Checksum64(name.data(), name.size()));
    digest = Mix(digest, node.folder ? DigestFolder(image, target) : DigestOf(node));
  }
  return digest;
}

std::shared_ptr<const std::string> Shared(const std::string& path) {
  return std::make_shared<const std::string>(path);
}

Node NewNode(bool folder) {
  Node node;
  node.folder = folder;
  if (!folder) node.data = std::make_shared<std::string>();
  return node;
}

void WriteInto(std::string* content, uint64_t offset, const char* data, size_t n) {
  if (content->size() < offset + n) content->resize(offset + n);
  std::memcpy(content->data() + offset, data, n);
}

void PunchOut(std::string* content, uint64_t offset, uint64_t length) {
  const uint64_t end = std::min<uint64_t>(content->size(), offset + length);
  if (offset < end) std::memset(content->data() + offset, 0, end - offset);
}

void ApplyData(const Op& op, std::string* content) {
  if (op.type == Op::Type::kWrite) {
    WriteInto(content, op.offset, op.data->data(), op.data->size());
  } else if (op.type == Op::Type::kTruncate) {
    content->resize(op.offset);
  } else if (op.type == Op::Type::kPunch) {
    PunchOut(content, op.offset, op.length);
  }
}

void ApplyName(const Op& op, Image* image) {
  auto& names = image->nodes[op.node].names;
  const auto points = [&](const std::string& name) {
    const auto found = names.find(name);
    return found != names.end() && found->second == op.target;
  };
  if (op.type == Op::Type::kLink) {
    names[op.name] = op.target;
  } else if (op.type == Op::Type::kUnlink) {
    if (points(op.name)) names.erase(op.name);
  } else if (op.type == Op::Type::kRename) {
    if (points(op.name)) names.erase(op.name);
    names[op.to] = op.target;
  }
}

// How one power cut treats what was not synced.
struct Manner {
  explicit Manner(uint64_t how, Random* random) {
    if (how < 2) {
      keep = how == 0 ? 0 : 100;
      return;
    }
    static constexpr uint64_t kKeep[] = {5, 30, 50, 70, 95};
    keep = kKeep[random->Below(5)];
    tear = random->Chance(60);
    ordered_names = random->Chance(50);
    junk = random->Chance(25);
  }

  uint64_t keep = 0;  // percent
  bool tear = false;  // writes are torn at sectors
  bool ordered_names = true;
  bool junk = false;  // what was never written to the platter is not zero
};

void CrashWrite(const Op& op, const Manner& manner, Random* random, std::string* content) {
  const uint64_t end = op.offset + op.data->size();
  const bool whole = random->Chance(manner.keep);
  if (!manner.tear) {
    if (whole) ApplyData(op, content);
    return;
  }
  const uint64_t old_size = content->size();
  if (old_size < end) {
    content->resize(end);
    for (uint64_t i = old_size; manner.junk && i < end; ++i) {
      (*content)[i] = static_cast<char>(random->Next());
    }
  }
  uint64_t size = old_size;
  for (uint64_t at = op.offset; at < end;) {
    const uint64_t stop = std::min(end, (at / kSector + 1) * kSector);
    if (random->Chance(manner.keep)) {
      std::memcpy(content->data() + at, op.data->data() + (at - op.offset), stop - at);
      size = std::max(size, stop);
    }
    at = stop;
  }
  // The size is written by itself: with all of the bytes, up to the last that got there, or as it
  // was.
  const uint64_t choice = random->Below(3);
  if (choice == 0) size = std::max(size, end);
  if (choice == 1) size = old_size;
  content->resize(std::min<uint64_t>(content->size(), std::max(size, old_size)));
}

}  // namespace

Image::Image() { nodes[kRoot] = NewNode(true); }

const Node* Image::Find(const std::string& path) const {
  const uint64_t node = FindNode(*this, path);
  return node == 0 ? nullptr : &nodes.at(node);
}

std::vector<std::string> Image::Files() const {
  std::vector<std::string> files;
  ListFiles(*this, kRoot, "", &files);
  return files;
}

uint64_t Image::Digest() const { return DigestFolder(*this, kRoot); }

void Image::SetContent(const std::string& path, std::string content) {
  *Own(&nodes.at(FindNode(*this, path))) = std::move(content);
}

std::string Op::ToString() const {
  static constexpr const char* kVerbs[] = {
      "write", "truncate", "punch",  "sync",        "FAILED sync",
      "link",  "unlink",   "rename", "sync folder", "FAILED sync folder"};
  std::string text = std::string(kVerbs[static_cast<size_t>(type)]) + " " + *path;
  if (type == Type::kWrite) {
    text += " at " + std::to_string(offset) + ", " + std::to_string(data->size()) + " bytes";
  }
  if (type == Type::kTruncate) text += " to " + std::to_string(offset);
  if (type == Type::kRename) text += " to " + to;
  return text;
}

// A file stays readable for whoever has it open after its name is gone.
class SimDisk::OpenFile final : public File {
 public:
  OpenFile(SimDisk* disk, uint64_t number, const std::string& path)
      : disk_(disk), number_(number), node_(&disk->live_.nodes.at(number)), path_(Shared(path)) {}

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    const std::lock_guard lock(disk_->mutex_);
    *got = 0;
    SATCHEL_RETURN_IF_ERROR(disk_->Injected(Fault::Calls::kReads, "read", *path_));
    const std::string& content = *node_->data;
    if (offset >= content.size()) return {};
    *got = std::min<uint64_t>(n, content.size() - offset);
    std::memcpy(out, content.data() + offset, *got);
    return {};
  }

  Status WriteAt(uint64_t offset, const void* data, size_t n) override {
    const std::lock_guard lock(disk_->mutex_);
    const bool broken = disk_->Broken(Fault::Calls::kChanges, "write", *path_);
    const size_t done = !broken ? n : disk_->fault_.partial ? n / 2 : 0;
    if (done > 0) {
      Op op{Op::Type::kWrite, number_, path_};
      op.offset = offset;
      op.data = std::make_shared<std::string>(static_cast<const char*>(data), done);
      Do(std::move(op));
    }
    return broken ? Status::FromErrno("cannot write " + *path_, disk_->fault_.error) : Status();
  }

  Status Truncate(uint64_t size) override {
    const std::lock_guard lock(disk_->mutex_);
    SATCHEL_RETURN_IF_ERROR(disk_->Injected(Fault::Calls::kChanges, "resize", *path_));
    Op op{Op::Type::kTruncate, number_, path_};
    op.offset = size;
    Do(std::move(op));
    return {};
  }

  Status PunchHole(uint64_t offset, uint64_t length) override {
    const std::lock_guard lock(disk_->mutex_);
    SATCHEL_RETURN_IF_ERROR(disk_->Injected(Fault::Calls::kChanges, "punch", *path_));
    Op op{Op::Type::kPunch, number_, path_};
    op.offset = offset;
    op.length = length;
    Do(std::move(op));
    return {};
  }

  Status Sync() override {
    const std::lock_guard lock(disk_->mutex_);
    if (disk_->pretend_files_) return {};
    const Status status = disk_->Injected(Fault::Calls::kChanges, "sync", *path_);
    const Op::Type type = status.ok() ? Op::Type::kSync : Op::Type::kFailedSync;
    disk_->journal_.push_back(Op{type, number_, path_});
    return status;
  }

  Status Size(uint64_t* size) override {
    const std::lock_guard lock(disk_->mutex_);
    SATCHEL_RETURN_IF_ERROR(disk_->Injected(Fault::Calls::kReads, "find the size of", *path_));
    *size = node_->data->size();
    return {};
  }

  Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) override {
    SATCHEL_RETURN_IF_ERROR(Size(end));
    *begin = std::min(offset, *end);
    return {};
  }

 private:
  void Do(Op op) {
    ApplyData(op, Own(node_));
    disk_->journal_.push_back(std::move(op));
  }

  SimDisk* const disk_;
  const uint64_t number_;
  Node* const node_;  // stays where it is as long as the disk is there
  const std::shared_ptr<const std::string> path_;
};

class SimDisk::HeldLock final : public FileLock {
 public:
  HeldLock(SimDisk* disk, std::string path) : disk_(disk), path_(std::move(path)) {}
  ~HeldLock() override {
    const std::lock_guard lock(disk_->mutex_);
    disk_->locks_.erase(path_);
  }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

 private:
  SimDisk* const disk_;
  const std::string path_;
};

Status SimDisk::Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) {
  const std::lock_guard lock(mutex_);
  const auto calls = Creates(mode) ? Fault::Calls::kChanges : Fault::Calls::kReads;
  SATCHEL_RETURN_IF_ERROR(Injected(calls, "open", path));
  uint64_t folder = 0;
  std::string name;
  SATCHEL_RETURN_IF_ERROR(LookupParent(path, &folder, &name));
  const auto& names = live_.nodes.at(folder).names;
  const auto found = names.find(name);
  uint64_t node = found == names.end() ? 0 : found->second;
  if (Creates(mode)) {
    if (node != 0) return Status::FromErrno("cannot open " + path, EEXIST);
    node = live_.next++;
    live_.nodes[node] = NewNode(false);
    Op op{Op::Type::kLink, folder, Shared(path)};
    op.name = name;
    op.target = node;
    ApplyName(op, &live_);
    journal_.push_back(std::move(op));
  }
  if (node == 0) return Status::FromErrno("cannot open " + path, ENOENT);
  if (live_.nodes.at(node).folder) return Status::FromErrno("cannot open " + path, EISDIR);
  *file = std::make_unique<OpenFile>(this, node, path);
  return {};
}

Status SimDisk::Rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  SATCHEL_RETURN_IF_ERROR(Injected(Fault::Calls::kChanges, "rename", from));
  uint64_t folder = 0;
  uint64_t target_folder = 0;
  Op op{Op::Type::kRename, 0, Shared(from)};
  SATCHEL_RETURN_IF_ERROR(LookupParent(from, &folder, &op.name));
  SATCHEL_RETURN_IF_ERROR(LookupParent(to, &target_folder, &op.to));
  assert(folder == target_folder);  // all that the engine does
  SATCHEL_RETURN_IF_ERROR(Lookup(from, &op.target));
  op.node = folder;
  const uint64_t old = FindNode(live_, to);
  if (old != 0 && live_.nodes.at(old).folder && !live_.nodes.at(old).names.empty()) {
    return Status::FromErrno("cannot rename " + from + " to " + to, ENOTEMPTY);
  }
  ApplyName(op, &live_);
  journal_.push_back(std::move(op));
  return {};
}

Status SimDisk::Remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  SATCHEL_RETURN_IF_ERROR(Injected(Fault::Calls::kChanges, "remove", path));
  return Unlink(path, false);
}

Status SimDisk::RemoveDir(const std::string& path) {
  const std::lock_guard lock(mutex_);
  SATCHEL_RETURN_IF_ERROR(Injected(Fault::Calls::kChanges, "remove the folder", path));
  return Unlink(path, true);
}

Status SimDisk::Unlink(const std::string& path, bool folder) {
  Op op{Op::Type::kUnlink, 0, Shared(path)};
  SATCHEL_RETURN_IF_ERROR(LookupParent(path, &op.node, &op.name));
  SATCHEL_RETURN_IF_ERROR(Lookup(path, &op.target));
  const Node& node = live_.nodes.at(op.target);
  if (node.folder != folder) return Status::FromErrno("cannot remove " + path, EISDIR);
  if (!node.names.empty()) return Status::FromErrno("cannot remove " + path, ENOTEMPTY);
  ApplyName(op, &live_);
  journal_.push_back(std::move(op));
  return {};
}

Status SimDisk::MakeDir(const std::string& path) {
  const std::lock_guard lock(mutex_);
  SATCHEL_RETURN_IF_ERROR(Injected(Fault::Calls::kChanges, "make the folder", path));
  if (FindNode(live_, path) != 0) return {};
  Op op{Op::Type::kLink, 0, Shared(path)};
  SATCHEL_RETURN_IF_ERROR(LookupParent(path, &op.node, &op.name));
  op.target = live_.next++;
  op.folder = true;
  live_.nodes[op.target] = NewNode(true);
  ApplyName(op, &live_);
  journal_.push_back(std::move(op));
  return {};
}

Status SimDisk::SyncDir(const std::string& path) {
  const std::lock_guard lock(mutex_);
  uint64_t folder = 0;
  SATCHEL_RETURN_IF_ERROR(Lookup(path, &folder));
  if (pretend_folders_) return {};
  const Status status = Injected(Fault::Calls::kChanges, "sync the folder", path);
  const Op::Type type = status.ok() ? Op::Type::kSyncFolder : Op::Type::kFailedSyncFolder;
  journal_.push_back(Op{type, folder, Shared(path)});
  return status;
}

Status SimDisk::List(const std::string& path, std::vector<std::string>* names) {
  const std::lock_guard lock(mutex_);
  names->clear();
  SATCHEL_RETURN_IF_ERROR(Injected(Fault::Calls::kReads, "list", path));
  uint64_t folder = 0;
  SATCHEL_RETURN_IF_ERROR(Lookup(path, &folder));
  for (const auto& entry : live_.nodes.at(folder).names) names->push_back(entry.first);
  return {};
}

bool SimDisk::Exists(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return FindNode(live_, path) != 0;
}

Status SimDisk::FreeBytes(const std::string& path, uint64_t* bytes) {
  const std::lock_guard lock(mutex_);
  SATCHEL_RETURN_IF_ERROR(Injected(Fault::Calls::kReads, "find the free space of", path));
  *bytes = kFreeBytes;
  return {};
}

Status SimDisk::Lock(const std::string& path, std::unique_ptr<FileLock>* lock) {
  const std::lock_guard guard(mutex_);
  SATCHEL_RETURN_IF_ERROR(Injected(Fault::Calls::kChanges, "lock", path));
  if (!locks_.insert(path).second) return Status::Make(Kind::kLocked, "cannot lock " + path, "1");
  *lock = std::make_unique<HeldLock>(this, path);
  return {};
}

Image SimDisk::Live() const {
  const std::lock_guard lock(mutex_);
  return live_;
}

std::vector<Op> SimDisk::Journal() const {
  const std::lock_guard lock(mutex_);
  return journal_;
}

size_t SimDisk::Position() const {
  const std::lock_guard lock(mutex_);
  return journal_.size();
}

void SimDisk::Pretend(bool files, bool folders) {
  const std::lock_guard lock(mutex_);
  pretend_files_ = files;
  pretend_folders_ = folders;
}

void SimDisk::SetFault(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  armed_ = true;
}

void SimDisk::Heal() {
  const std::lock_guard lock(mutex_);
  armed_ = false;
}

bool SimDisk::failed() const {
  const std::lock_guard lock(mutex_);
  return !failed_call_.empty();
}

uint64_t SimDisk::Calls(Fault::Calls calls) const {
  const std::lock_guard lock(mutex_);
  return calls_[static_cast<size_t>(calls)];
}

std::string SimDisk::FailedCall() const {
  const std::lock_guard lock(mutex_);
  return failed_call_;
}

bool SimDisk::Broken(Fault::Calls calls, const char* verb, const std::string& path) {
  const uint64_t number = calls_[static_cast<size_t>(calls)]++;
  if (!armed_ || fault_.calls != calls) return false;
  const bool broken = fault_.for_good ? number >= fault_.site : number == fault_.site;
  if (broken && failed_call_.empty()) failed_call_ = std::string(verb) + " " + path;
  return broken;
}

Status SimDisk::Injected(Fault::Calls calls, const char* verb, const std::string& path) {
  if (!Broken(calls, verb, path)) return {};
  return Status::FromErrno(std::string("cannot ") + verb + " " + path, fault_.error);
}

Status SimDisk::Lookup(const std::string& path, uint64_t* node) const {
  *node = FindNode(live_, path);
  return *node != 0 ? Status() : Status::FromErrno("cannot find " + path, ENOENT);
}

Status SimDisk::LookupParent(const std::string& path, uint64_t* folder, std::string* name) const {
  std::string parent;
  Split(path, &parent, name);
  return Lookup(parent, folder);
}

void Durability::Advance(const Op& op) {
  if (op.type == Op::Type::kLink) durable_.nodes[op.target] = NewNode(op.folder);
  switch (op.type) {
    case Op::Type::kWrite:
    case Op::Type::kTruncate:
    case Op::Type::kPunch:
      data_[op.node].push_back(op);
      break;
    case Op::Type::kSync:
      for (const Op& each : data_[op.node]) ApplyData(each, Own(&durable_.nodes.at(op.node)));
      (void)DigestOf(durable_.nodes.at(op.node));  // known to every image made from here on
      data_.erase(op.node);
      break;
    case Op::Type::kFailedSync:
      data_.erase(op.node);
      break;
    case Op::Type::kLink:
    case Op::Type::kUnlink:
    case Op::Type::kRename:
      names_.push_back(op);
      break;
    case Op::Type::kSyncFolder:
      for (const Op& each : names_) {
        if (each.node == op.node) ApplyName(each, &durable_);
      }
      names_.erase(std::remove_if(names_.begin(), names_.end(),
                                  [&](const Op& each) { return each.node == op.node; }),
                   names_.end());
      break;
    case Op::Type::kFailedSyncFolder:
      break;
  }
}

// What is durable, without the many files that no name leads to, or may lead to.
Image Durability::Named() const {
  std::vector<uint64_t> numbers;
  for (const auto& [number, node] : durable_.nodes) {
    if (!node.folder) continue;
    numbers.push_back(number);
    for (const auto& entry : node.names) numbers.push_back(entry.second);
  }
  for (const auto& entry : data_) numbers.push_back(entry.first);
  for (const Op& op : names_) numbers.push_back(op.target);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  Image image;
  image.nodes.clear();
  for (const uint64_t number : numbers) {
    image.nodes.emplace_hint(image.nodes.end(), number, durable_.nodes.at(number));
  }
  return image;
}

Image Durability::Crash(uint64_t how, Random* random) const {
  const Manner manner(how, random);
  Image image = Named();
  for (const auto& [node, ops] : data_) {
    if (manner.keep == 0) break;
    std::string* content = Own(&image.nodes.at(node));
    for (const Op& op : ops) {
      if (op.type == Op::Type::kWrite) {
        CrashWrite(op, manner, random, content);
      } else if (random->Chance(manner.keep)) {
        ApplyData(op, content);
      }
    }
  }
  const size_t cut = manner.keep == 100 ? names_.size() : random->Below(names_.size() + 1);
  for (size_t i = 0; i < names_.size() && manner.keep > 0; ++i) {
    const bool kept = manner.ordered_names ? i < cut : random->Chance(manner.keep);
    if (kept) ApplyName(names_[i], &image);
  }
  image.next = durable_.nodes.rbegin()->first + 1;
  return image;
}

size_t Durability::pending() const {
  size_t count = names_.size();
  for (const auto& entry : data_) count += entry.second.size();
  return count;
}

}  // namespace satchel::sim
