// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Removing files so that a power cut leaves no name whose clusters are free already: FAT has no
// journal, and the kernel mounts it read-only when somebody comes upon such a name. A file that is
// open keeps its clusters, so each is held until its folder is durable without it.
#ifndef SATCHEL_CHUNKSTORE_CORE_REMOVAL_H_
#define SATCHEL_CHUNKSTORE_CORE_REMOVAL_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chunkstore/core/env.h"

namespace satchel {

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

#endif  // SATCHEL_CHUNKSTORE_CORE_REMOVAL_H_
