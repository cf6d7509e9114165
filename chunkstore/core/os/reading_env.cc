// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/os/reading_env.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace satchel {

// Lives as long as a name or an open file has it.
struct ReadingEnv::Content {
  Mutex mutex;
  std::string bytes GUARDED_BY(mutex);
};

class ReadingEnv::MadeFile final : public File {
 public:
  MadeFile(const std::atomic<bool>* refusing, std::string path, std::shared_ptr<Content> content)
      : refusing_(refusing), path_(std::move(path)), content_(std::move(content)) {}

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    const MutexLock lock(&content_->mutex);
    const uint64_t size = content_->bytes.size();
    *got = offset < size ? std::min<size_t>(n, size - offset) : 0;
    if (*got > 0) std::memcpy(out, content_->bytes.data() + offset, *got);
    return {};
  }

  Status WriteAt(uint64_t offset, const void* data, size_t n) override {
    if (*refusing_) return Refused(path_);
    const MutexLock lock(&content_->mutex);
    if (content_->bytes.size() < offset + n) content_->bytes.resize(offset + n);
    std::memcpy(&content_->bytes[offset], data, n);
    return {};
  }

  Status Truncate(uint64_t) override { return Refused(path_); }
  Status PunchHole(uint64_t, uint64_t) override { return Refused(path_); }
  Status Sync() override { return {}; }

  Status Size(uint64_t* size) override {
    const MutexLock lock(&content_->mutex);
    *size = content_->bytes.size();
    return {};
  }

  Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) override {
    SATCHEL_RETURN_IF_ERROR(Size(end));
    *begin = std::min(offset, *end);
    return {};
  }

 private:
  const std::atomic<bool>* const refusing_;
  const std::string path_;
  const std::shared_ptr<Content> content_;
};

Status ReadingEnv::Refused(const std::string& path) {
  return Status::Make(Kind::kDenied, "cannot write " + path, "the store was opened to read");
}

Status ReadingEnv::Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) {
  const MutexLock lock(&mutex_);
  auto found = made_.find(path);
  if (Creates(mode)) {
    if (refusing_) return Refused(path);
    found = made_.insert_or_assign(path, std::make_shared<Content>()).first;
  }
  if (found != made_.end()) {
    *file = std::make_unique<MadeFile>(&refusing_, path, found->second);
    return {};
  }
  return mode == OpenMode::kRead ? env_->Open(path, mode, file) : Refused(path);
}

// Of what was made here.
Status ReadingEnv::Rename(const std::string& from, const std::string& to) {
  const MutexLock lock(&mutex_);
  const auto found = made_.find(from);
  if (refusing_ || found == made_.end()) return Refused(from);
  made_[to] = std::move(found->second);
  made_.erase(found);
  return {};
}

// What is on the disk stays, and is seen on: LevelDB asks no more for what it has removed.
Status ReadingEnv::Remove(const std::string& path) {
  if (refusing_) return Refused(path);
  const MutexLock lock(&mutex_);
  made_.erase(path);
  return {};
}

Status ReadingEnv::MakeDir(const std::string& path) {
  return env_->Exists(path) ? Status() : Refused(path);
}

Status ReadingEnv::List(const std::string& path, std::vector<std::string>* names) {
  SATCHEL_RETURN_IF_ERROR(env_->List(path, names));
  const MutexLock lock(&mutex_);
  for (const auto& [made, content] : made_) {
    const size_t slash = made.rfind('/');
    if (made.substr(0, slash) == path) names->push_back(made.substr(slash + 1));
  }
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
  return {};
}

bool ReadingEnv::Exists(const std::string& path) {
  const MutexLock lock(&mutex_);
  return made_.count(path) != 0 || env_->Exists(path);
}

Status ReadingEnv::Lock(const std::string&, std::unique_ptr<FileLock>* lock) {
  *lock = std::make_unique<FileLock>();
  return {};
}

}  // namespace satchel
