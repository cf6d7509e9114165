// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What passes every call on, for tests that change what one of them does.
#ifndef SATCHEL_TESTS_NATIVE_FORWARDING_H_
#define SATCHEL_TESTS_NATIVE_FORWARDING_H_

#include <memory>
#include <utility>

#include "chunkstore/core/os/forwarding_env.h"

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
  void StartWriting(uint64_t offset, uint64_t length, uint64_t behind) override {
    file_->StartWriting(offset, length, behind);
  }
  Status Size(uint64_t* size) override { return file_->Size(size); }
  Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) override {
    return file_->NextData(offset, begin, end);
  }

 private:
  const std::unique_ptr<File> file_;
};

// To the system.
class ForwardingEnv : public satchel::ForwardingEnv {
 public:
  ForwardingEnv() : satchel::ForwardingEnv(PosixEnv()) {}
};

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_FORWARDING_H_
