// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/preload/place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace satchel::preload {
namespace {

constexpr int kKnown = 1024;  // descriptors of which it is remembered what they are
constexpr uint64_t kNone = ~uint64_t{0};
std::atomic<uint64_t> known[kKnown];  // 0: not looked yet

const std::string& Setting(const char* name) {
  static const std::string* const root = new std::string(getenv("SATCHEL_SHARE_ROOT") ?: "");
  static const std::string* const files = new std::string(getenv("SATCHEL_SHARE_FILES") ?: "");
  return *name == 'r' ? *root : *files;
}

std::string PathOf(int fd) {
  char link[64];
  char path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : std::string();
}

std::string WorkingFolder() {
  char path[PATH_MAX];
  return syscall(SYS_getcwd, path, sizeof path) > 0 ? std::string(path) : std::string();
}

// "/a/./b//../c" is "/a/c". Links count as folders.
std::string Normal(const std::string& path) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at < path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (!part.empty() && part != ".") {
      parts.push_back(part);
    }
    at = end + 1;
  }
  std::string normal;
  for (const std::string& part : parts) normal += "/" + part;
  return normal;
}

bool BelowRoot(const std::string& path, std::string* below) {
  const std::string& root = Setting("root");
  if (root.empty() || path.compare(0, root.size(), root) != 0) return false;
  if (path.size() > root.size() && path[root.size()] != '/') return false;
  *below = path.size() > root.size() ? path.substr(root.size() + 1) : std::string();
  return true;
}

}  // namespace

bool Below(int fd, const char* path, std::string* below) {
  if (path == nullptr || *path == '\0' || Setting("root").empty()) return false;
  const int error = errno;
  std::string whole = path;
  if (*path != '/') {
    const std::string folder = fd == AT_FDCWD ? WorkingFolder() : PathOf(fd);
    std::string ignored;
    if (folder.compare(0, 1, "/") != 0) return false;
    if (whole.find("..") == std::string::npos && !BelowRoot(folder, &ignored)) {
      errno = error;
      return false;
    }
    whole = folder + "/" + whole;
  }
  errno = error;
  return BelowRoot(Normal(whole), below);
}

uint64_t FileOf(int fd) {
  if (fd < 0) return 0;
  if (fd < kKnown) {
    const uint64_t found = known[fd];
    if (found != 0) return found == kNone ? 0 : found;
  }
  const std::string& files = Setting("files");
  if (files.empty()) return 0;
  const int error = errno;
  const std::string path = PathOf(fd);
  errno = error;
  uint64_t file = 0;
  if (path.size() > files.size() && path.compare(0, files.size(), files) == 0) {
    file = strtoull(path.c_str() + files.size() + 1, nullptr, 16);
  }
  // What is no file of the share may be another one's descriptor by the next call.
  if (file != 0 && fd < kKnown) known[fd] = file;
  return file;
}

bool FolderOf(int fd, std::string* below) {
  if (fd < 0 || Setting("root").empty()) return false;
  const int error = errno;
  const bool found = BelowRoot(PathOf(fd), below);
  errno = error;
  return found;
}

void NoteFile(int fd, uint64_t file) {
  if (fd >= 0 && fd < kKnown) known[fd] = file;
}

std::string RealFolder(const std::string& below) {
  const std::string& root = Setting("root");
  for (size_t at = 0; at < below.size();) {
    at = std::min(below.find('/', at + 1), below.size());
    const std::string path = root + "/" + below.substr(0, at);
    syscall(SYS_mkdirat, AT_FDCWD, path.c_str(), 0700);
  }
  return below.empty() ? root : root + "/" + below;
}

std::string RealFile(uint64_t file) {
  char name[32];
  snprintf(name, sizeof name, "/%016llx", static_cast<unsigned long long>(file));
  return Setting("files") + name;
}

int Done(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace satchel::preload
