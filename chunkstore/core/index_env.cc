// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/index_env.h"

#include <fcntl.h>
#include <leveldb/env.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace satchel {
namespace {

leveldb::Status Failed(const std::string& name, int error) {
  if (error == ENOENT) return leveldb::Status::NotFound(name, std::strerror(error));
  return leveldb::Status::IOError(name, std::strerror(error));
}

class ReadFile final : public leveldb::RandomAccessFile {
 public:
  ReadFile(std::string name, int fd) : name_(std::move(name)), fd_(fd) {}
  ~ReadFile() override { close(fd_); }

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    *result = leveldb::Slice();
    size_t got = 0;
    while (got < n) {
      const ssize_t r = pread(fd_, scratch + got, n - got, static_cast<off_t>(offset + got));
      if (r < 0 && errno == EINTR) continue;
      if (r < 0) return Failed(name_, errno);
      if (r == 0) break;
      got += static_cast<size_t>(r);
    }
    *result = leveldb::Slice(scratch, got);
    return leveldb::Status::OK();
  }

 private:
  const std::string name_;
  const int fd_;
};

class ReadingEnv final : public leveldb::EnvWrapper {
 public:
  ReadingEnv() : EnvWrapper(leveldb::Env::Default()) {}

  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** file) override {
    *file = nullptr;
    const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return Failed(name, errno);
    *file = new ReadFile(name, fd);
    return leveldb::Status::OK();
  }
};

}  // namespace

leveldb::Env* IndexEnv() {
  static auto* const env = new ReadingEnv();
  return env;
}

}  // namespace satchel
