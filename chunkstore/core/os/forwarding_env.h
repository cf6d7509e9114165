// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// An Env that passes every call on to another, for those that change what one of them does.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_FORWARDING_ENV_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_FORWARDING_ENV_H_

#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/os/env.h"

namespace satchel {

class ForwardingEnv : public Env {
 public:
  // `env` outlives it.
  explicit ForwardingEnv(Env* env) : env_(env) {}

  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override {
    return env_->Open(path, mode, file);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    return env_->Rename(from, to);
  }
  Status Remove(const std::string& path) override { return env_->Remove(path); }
  Status RemoveDir(const std::string& path) override { return env_->RemoveDir(path); }
  Status MakeDir(const std::string& path) override { return env_->MakeDir(path); }
  Status SyncDir(const std::string& path) override { return env_->SyncDir(path); }
  Status List(const std::string& path, std::vector<std::string>* names) override {
    return env_->List(path, names);
  }
  bool Exists(const std::string& path) override { return env_->Exists(path); }
  Status FreeBytes(const std::string& path, uint64_t* bytes) override {
    return env_->FreeBytes(path, bytes);
  }
  uint64_t Room(uint64_t bytes) override { return env_->Room(bytes); }
  Status Lock(const std::string& path, std::unique_ptr<FileLock>* lock) override {
    return env_->Lock(path, lock);
  }

 private:
  Env* const env_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_FORWARDING_ENV_H_
