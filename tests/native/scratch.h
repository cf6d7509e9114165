// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A folder of the real system that goes with its owner: in memory, as what is tested here are
// threads and processes, not the disk.
#ifndef SATCHEL_TESTS_NATIVE_SCRATCH_H_
#define SATCHEL_TESTS_NATIVE_SCRATCH_H_

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace satchel::sim {

class Scratch {
 public:
  // In memory, by default.
  explicit Scratch(const std::string& parent = "/dev/shm")
      : path_(parent + "/satchel-native-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_SCRATCH_H_
