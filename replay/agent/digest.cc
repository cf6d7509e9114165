// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// OpenSSL's low-level SHA-256 is used, deprecated as it is: in a static program it brings in a few
// kilobytes, the EVP interface brings in megabytes.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "replay/agent/digest.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "replay/agent/sys.h"

namespace satchel {
namespace {

class Digester {
 public:
  Digester() { SHA256_Init(&state_); }

  bool AddAll(std::vector<std::string> paths) {
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      if (!Add(path)) return false;
    }
    return true;
  }

  std::string Finish() {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &state_);
    std::string hex;
    for (const unsigned char byte : digest) {
      hex.push_back("0123456789abcdef"[byte >> 4]);
      hex.push_back("0123456789abcdef"[byte & 15]);
    }
    return hex;
  }

  const std::string& error() const { return error_; }

 private:
  void Entry(char kind, const std::string& path, uint64_t size) {
    SHA256_Update(&state_, &kind, 1);
    SHA256_Update(&state_, path.c_str(), path.size() + 1);
    SHA256_Update(&state_, &size, sizeof(size));
  }

  bool Add(const std::string& path) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) return Fail(path);
      Entry('a', path, 0);
      return true;
    }
    if (S_ISREG(info.st_mode)) return AddFile(path, static_cast<uint64_t>(info.st_size));
    if (S_ISDIR(info.st_mode)) return AddFolder(path);
    if (S_ISLNK(info.st_mode)) return AddLink(path);
    Entry('o', path, 0);
    return true;
  }

  bool AddFile(const std::string& path, uint64_t size) {
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd.valid()) return Fail(path);
    Entry('f', path, size);
    char buffer[64u << 10];
    uint64_t left = size;
    while (left > 0) {
      const ssize_t got = read(fd.get(), buffer, std::min<uint64_t>(left, sizeof(buffer)));
      if (got < 0) return Fail(path);
      if (got == 0) {
        errno = EAGAIN;  // it shrank meanwhile
        return Fail(path);
      }
      SHA256_Update(&state_, buffer, static_cast<size_t>(got));
      left -= static_cast<uint64_t>(got);
    }
    return true;
  }

  bool AddFolder(const std::string& path) {
    DIR* folder = opendir(path.c_str());
    if (folder == nullptr) return Fail(path);
    std::vector<std::string> inside;
    const std::string prefix = path.back() == '/' ? path : path + "/";
    while (const dirent* entry = readdir(folder)) {
      if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
      inside.push_back(prefix + entry->d_name);
    }
    closedir(folder);
    Entry('d', path, 0);
    return AddAll(std::move(inside));
  }

  bool AddLink(const std::string& path) {
    char target[PATH_MAX];
    const ssize_t length = readlink(path.c_str(), target, sizeof(target));
    if (length < 0) return Fail(path);
    Entry('l', path, static_cast<uint64_t>(length));
    SHA256_Update(&state_, target, static_cast<size_t>(length));
    return true;
  }

  bool Fail(const std::string& path) {
    error_ = ErrnoText(path.c_str());
    return false;
  }

  SHA256_CTX state_;
  std::string error_;
};

}  // namespace

bool DigestPaths(std::vector<std::string> paths, std::string* hex, std::string* error) {
  Digester digester;
  if (!digester.AddAll(std::move(paths))) {
    *error = digester.error();
    return false;
  }
  *hex = digester.Finish();
  return true;
}

}  // namespace satchel
