// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What passes every call on, for tests that change what one of them does.
#ifndef SATCHEL_TESTS_NATIVE_FORWARDING_H_
#define SATCHEL_TESTS_NATIVE_FORWARDING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunkstore/core/env.h"

namespace satchel::sim {

class ForwardingFile : public File {
 public:
  explicit ForwardingFile(std::unique_ptr<File> file) : file_(std::move(file)) {}

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    return file_->ReadAt(offset, n, out, got);
  }
  Status WriteAt(uint64_t offset, const void* data, size_t n) override {
    return file_->WriteAt(offset, data, n);
  }
  Status Truncate(uint64_t size) override { return file_->Truncate(size); }
  Status PunchHole(uint64_t offset, uint64_t length) override {
    return file_->PunchHole(offset, length);
  }
  Status Sync() override { return file_->Sync(); }
  Status Size(uint64_t* size) override { return file_->Size(size); }
  Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) override {
    return file_->NextData(offset, begin, end);
  }

 private:
  const std::unique_ptr<File> file_;
};

// To the system.
class ForwardingEnv : public Env {
 public:
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
  Status Lock(const std::string& path, std::unique_ptr<FileLock>* lock) override {
    return env_->Lock(path, lock);
  }

 private:
  Env* const env_ = PosixEnv();
};

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_FORWARDING_H_
