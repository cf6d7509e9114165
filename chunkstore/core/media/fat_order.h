// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which files come and go on FAT, which has no journal. A name whose chain of clusters
// is not whole is worse than garbage: who reads or removes it makes the kernel mount the medium
// read-only until somebody checks it. So the chain is durable before the name has it, and for as
// long as the name is there. Folders are made by nobody but who makes the medium: a folder's name
// and its first cluster are written in any order, and between the two it holds what was there
// before.
#ifndef SATCHEL_CHUNKSTORE_CORE_MEDIA_FAT_ORDER_H_
#define SATCHEL_CHUNKSTORE_CORE_MEDIA_FAT_ORDER_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chunkstore/core/os/env.h"

namespace satchel {

// What was written to a new file is durable on return. Syncing the folder first writes all of the
// FAT, and of the file's name what was there when it was made; with the sync of the file the name
// gets its clusters.
inline Status SyncNew(Env* env, const std::string& folder, File* file) {
  SATCHEL_RETURN_IF_ERROR(file->Finish());
  SATCHEL_RETURN_IF_ERROR(env->SyncDir(folder));
  SATCHEL_RETURN_IF_ERROR(file->Sync());
  return env->SyncDir(folder);
}

// A new file, durable on return; nothing of it stays after an error. kExists if there is one.
inline Status WriteNew(Env* env, const std::string& path, const std::string& data) {
  const std::string folder = path.substr(0, path.rfind('/'));
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env->Open(path, OpenMode::kCreate, &file));
  Status status = file->WriteAt(0, data.data(), data.size());
  if (status.ok()) status = SyncNew(env, folder, file.get());
  if (status.ok()) return {};
  (void)env->Remove(path);
  (void)env->SyncDir(folder);
  return status;
}

// Removes files. One that is open keeps its clusters, so each is held until its folder is durable
// without it.
class Removal {
 public:
  explicit Removal(Env* env) : env_(env) {}

  // The name goes; it is gone for good when Sync returns. One that is not there is all right.
  Status Add(const std::string& path) {
    if (held_.size() == kHeld) SATCHEL_RETURN_IF_ERROR(Sync());
    std::unique_ptr<File> file;
    if (env_->Open(path, OpenMode::kRead, &file).ok()) held_.push_back(std::move(file));
    const Status status = env_->Remove(path);
    if (!status.ok()) return status.Is(Kind::kNotFound) ? Status() : status;
    folders_.insert(path.substr(0, path.rfind('/')));
    return {};
  }

  Status Sync() {
    for (const std::string& folder : folders_) SATCHEL_RETURN_IF_ERROR(env_->SyncDir(folder));
    folders_.clear();
    held_.clear();
    return {};
  }

 private:
  static constexpr size_t kHeld = 64;

  Env* const env_;
  std::set<std::string> folders_;
  std::vector<std::unique_ptr<File>> held_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_MEDIA_FAT_ORDER_H_
