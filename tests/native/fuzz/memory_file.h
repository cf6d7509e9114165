// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes of the fuzzer as a file.
#ifndef SATCHEL_TESTS_NATIVE_FUZZ_MEMORY_FILE_H_
#define SATCHEL_TESTS_NATIVE_FUZZ_MEMORY_FILE_H_

#include <algorithm>
#include <cstring>

#include "chunkstore/core/os/env.h"
#include "tests/native/fuzz/require.h"

namespace satchel::fuzz {

// `data` outlives the file. Only what reads is there.
class MemoryFile final : public File {
 public:
  MemoryFile(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    *got = offset < size_ ? std::min<uint64_t>(n, size_ - offset) : 0;
    if (*got > 0) std::memcpy(out, data_ + offset, *got);
    return {};
  }
  Status WriteAt(uint64_t, const void*, size_t) override { return Refused(); }
  Status Truncate(uint64_t) override { return Refused(); }
  Status PunchHole(uint64_t, uint64_t) override { return Refused(); }
  Status Sync() override { return Refused(); }
  Status Size(uint64_t* size) override {
    *size = size_;
    return {};
  }
  Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) override {
    *end = size_;
    *begin = std::min<uint64_t>(offset, size_);
    return {};
  }

 private:
  static Status Refused() { return Status::Make(Kind::kDenied, "this file is only read"); }

  const uint8_t* const data_;
  const size_t size_;
};

}  // namespace satchel::fuzz

#endif  // SATCHEL_TESTS_NATIVE_FUZZ_MEMORY_FILE_H_
