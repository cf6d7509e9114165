// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// An Env that changes nothing, for a store that is opened to read: on a disk that is full, on one
// that is mounted read-only, of another user.
//
// LevelDB cannot be opened without writing: it makes a table of its log, and a new description of
// all tables. What it makes for that is in memory here, a few megabytes, over what is on the disk.
// Then Refuse is called, so that it does not go on with what it would like to do in the background
// (a compaction may be as large as the index). A write that is refused is kDenied.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_READING_ENV_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_READING_ENV_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/mutex.h"

namespace satchel {

class ReadingEnv final : public Env {
 public:
  // `env` outlives it, and it outlives the files that it opened.
  explicit ReadingEnv(Env* env) : env_(env) {}

  // From now on nothing is made or written, not in memory either.
  void Refuse() { refusing_ = true; }

  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status RemoveDir(const std::string& path) override { return Refused(path); }
  Status MakeDir(const std::string& path) override;
  Status SyncDir(const std::string&) override { return {}; }
  Status List(const std::string& path, std::vector<std::string>* names) override;
  bool Exists(const std::string& path) override;
  Status FreeBytes(const std::string& path, uint64_t* bytes) override {
    return env_->FreeBytes(path, bytes);
  }

  // Of no effect: who opens the store to read has its lock.
  Status Lock(const std::string& path, std::unique_ptr<FileLock>* lock) override;

 private:
  struct Content;
  class MadeFile;

  static Status Refused(const std::string& path);

  Env* const env_;
  std::atomic<bool> refusing_{false};
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Content>> made_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_READING_ENV_H_
