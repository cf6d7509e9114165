// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Changes of names and attributes, working folders, and temporary files.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>

#include "shares/preload/files.h"
#include "shares/preload/place.h"

namespace satchel::preload {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = -1;
constexpr int64_t kOmit = -2;

int64_t Nanoseconds(const timespec& time) {
  if (time.tv_nsec == UTIME_NOW) return kNow;
  if (time.tv_nsec == UTIME_OMIT) return kOmit;
  return int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

int SetTimes(uint64_t file, const std::string& below, const timespec* times, bool follows) {
  Request request = {Op::kTimes, file, kNow, kNow, follows ? 1U : 0U, below};
  if (times != nullptr) {
    request.first = Nanoseconds(times[0]);
    request.second = Nanoseconds(times[1]);
  }
  return Done(Ask(request).error);
}

void Convert(const timeval* from, timespec* to) {
  for (int i = 0; i < 2; ++i) to[i] = {from[i].tv_sec, from[i].tv_usec * 1000};
}

// As the calls about two names: whether any of both is of the share. EXDEV where one is.
bool BothBelow(int from_fd, const char* from, int to_fd, const char* to, std::string* from_below,
               std::string* to_below, int* error) {
  const bool first = Below(from_fd, from, from_below);
  const bool second = Below(to_fd, to, to_below);
  *error = first == second ? 0 : EXDEV;
  return first || second;
}

int MakeTemporary(char* pattern, int suffix, bool folder, int flags) {
  static const char kLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  const size_t size = strlen(pattern);
  char* const place = pattern + size - static_cast<size_t>(suffix) - 6;
  if (size < static_cast<size_t>(suffix) + 6 || strncmp(place, "XXXXXX", 6) != 0) {
    return Done(EINVAL);
  }
  for (int turn = 0; turn < 1000; ++turn) {
    unsigned char chance[6] = {};
    if (getrandom(chance, sizeof chance, 0) != sizeof chance) return -1;
    for (int i = 0; i < 6; ++i) place[i] = kLetters[chance[i] % 36];
    const int mode = O_RDWR | O_CREAT | O_EXCL | (flags & ~O_ACCMODE);
    const int made = folder ? mkdir(pattern, 0700) : open(pattern, mode, 0600);
    if (made >= 0 || errno != EEXIST) return made;
  }
  return Done(EEXIST);
}

}  // namespace
}  // namespace satchel::preload

using namespace satchel::preload;  // NOLINT: what follows is C's names

EXPORT int mkdirat(int fd, const char* path, mode_t mode) noexcept {
  std::string below;
  if (!Below(fd, path, &below)) return NEXT(mkdirat)(fd, path, mode);
  return Done(Ask({Op::kMakeFolder, 0, static_cast<int64_t>(mode), 0, 0, below}).error);
}
EXPORT int mkdir(const char* path, mode_t mode) noexcept { return mkdirat(AT_FDCWD, path, mode); }

EXPORT int unlinkat(int fd, const char* path, int flags) noexcept {
  std::string below;
  if (!Below(fd, path, &below)) return NEXT(unlinkat)(fd, path, flags);
  const bool folder = (flags & AT_REMOVEDIR) != 0;
  const int error = Ask({folder ? Op::kRemoveFolder : Op::kUnlink, 0, 0, 0, 0, below}).error;
  if (error == 0 && folder) {
    syscall(SYS_unlinkat, AT_FDCWD, RealFolder(below).c_str(), AT_REMOVEDIR);
  }
  return Done(error);
}
EXPORT int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }
EXPORT int rmdir(const char* path) noexcept { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
EXPORT int remove(const char* path) noexcept {
  const int done = unlink(path);
  return done != 0 && (errno == EISDIR || errno == EPERM) ? rmdir(path) : done;
}

EXPORT int renameat2(int from_fd, const char* from, int to_fd, const char* to,
                     unsigned flags) noexcept {
  std::string first;
  std::string second;
  int error = 0;
  if (!BothBelow(from_fd, from, to_fd, to, &first, &second, &error)) {
    return static_cast<int>(syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
  }
  if (error == 0) error = Ask({Op::kRename, 0, 0, 0, flags, first, second}).error;
  return Done(error);
}
EXPORT int renameat(int from_fd, const char* from, int to_fd, const char* to) noexcept {
  return renameat2(from_fd, from, to_fd, to, 0);
}
EXPORT int rename(const char* from, const char* to) noexcept {
  return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) noexcept {
  std::string first;
  std::string second;
  int error = 0;
  if (!BothBelow(from_fd, from, to_fd, to, &first, &second, &error)) {
    return NEXT(linkat)(from_fd, from, to_fd, to, flags);
  }
  const uint32_t follows = (flags & AT_SYMLINK_FOLLOW) != 0 ? 1 : 0;
  if (error == 0) error = Ask({Op::kLink, 0, 0, 0, follows, first, second}).error;
  return Done(error);
}
EXPORT int link(const char* from, const char* to) noexcept {
  return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

EXPORT int symlinkat(const char* target, int fd, const char* path) noexcept {
  std::string below;
  if (!Below(fd, path, &below)) return NEXT(symlinkat)(target, fd, path);
  return Done(Ask({Op::kSymlink, 0, 0, 0, 0, below, target}).error);
}
EXPORT int symlink(const char* target, const char* path) noexcept {
  return symlinkat(target, AT_FDCWD, path);
}

EXPORT ssize_t readlinkat(int fd, const char* path, char* buffer, size_t size) noexcept {
  std::string below;
  if (!Below(fd, path, &below)) return syscall(SYS_readlinkat, fd, path, buffer, size);
  const Reply reply = Ask({Op::kReadLink, 0, 0, 0, 0, below});
  if (reply.error != 0) return Done(reply.error);
  const size_t copied = std::min(size, reply.data.size());
  memcpy(buffer, reply.data.data(), copied);
  return static_cast<ssize_t>(copied);
}
EXPORT ssize_t readlink(const char* path, char* buffer, size_t size) noexcept {
  return readlinkat(AT_FDCWD, path, buffer, size);
}
EXPORT ssize_t __readlink_chk(const char* path, char* buffer, size_t size, size_t) {
  return readlink(path, buffer, size);
}
EXPORT ssize_t __readlinkat_chk(int fd, const char* path, char* buffer, size_t size, size_t) {
  return readlinkat(fd, path, buffer, size);
}

EXPORT int fchmodat(int fd, const char* path, mode_t mode, int flags) noexcept {
  std::string below;
  if (!Below(fd, path, &below)) return NEXT(fchmodat)(fd, path, mode, flags);
  const uint32_t follows = (flags & AT_SYMLINK_NOFOLLOW) == 0 ? 1 : 0;
  return Done(Ask({Op::kMode, 0, static_cast<int64_t>(mode), 0, follows, below}).error);
}
EXPORT int chmod(const char* path, mode_t mode) noexcept {
  return fchmodat(AT_FDCWD, path, mode, 0);
}
EXPORT int fchmod(int fd, mode_t mode) noexcept {
  const uint64_t file = FileOf(fd);
  std::string below;
  if (file == 0 && !FolderOf(fd, &below)) return NEXT(fchmod)(fd, mode);
  return Done(Ask({Op::kMode, file, static_cast<int64_t>(mode), 0, 1, below}).error);
}

EXPORT int fchownat(int fd, const char* path, uid_t uid, gid_t gid, int flags) noexcept {
  std::string below;
  if (!Below(fd, path, &below)) return NEXT(fchownat)(fd, path, uid, gid, flags);
  const uint32_t follows = (flags & AT_SYMLINK_NOFOLLOW) == 0 ? 1 : 0;
  return Done(
      Ask({Op::kOwner, 0, static_cast<int32_t>(uid), static_cast<int32_t>(gid), follows, below})
          .error);
}
EXPORT int chown(const char* path, uid_t uid, gid_t gid) noexcept {
  return fchownat(AT_FDCWD, path, uid, gid, 0);
}
EXPORT int lchown(const char* path, uid_t uid, gid_t gid) noexcept {
  return fchownat(AT_FDCWD, path, uid, gid, AT_SYMLINK_NOFOLLOW);
}
EXPORT int fchown(int fd, uid_t uid, gid_t gid) noexcept {
  const uint64_t file = FileOf(fd);
  std::string below;
  if (file == 0 && !FolderOf(fd, &below)) return NEXT(fchown)(fd, uid, gid);
  return Done(
      Ask({Op::kOwner, file, static_cast<int32_t>(uid), static_cast<int32_t>(gid), 1, below})
          .error);
}

EXPORT int utimensat(int fd, const char* path, const timespec* times, int flags) noexcept {
  std::string below;
  if (path == nullptr) return futimens(fd, times);
  if (!Below(fd, path, &below)) return NEXT(utimensat)(fd, path, times, flags);
  return SetTimes(0, below, times, (flags & AT_SYMLINK_NOFOLLOW) == 0);
}
EXPORT int futimens(int fd, const timespec* times) noexcept {
  const uint64_t file = FileOf(fd);
  std::string below;
  if (file == 0 && !FolderOf(fd, &below)) return NEXT(futimens)(fd, times);
  return SetTimes(file, below, times, true);
}
EXPORT int utimes(const char* path, const timeval* times) noexcept {
  timespec converted[2];
  if (times != nullptr) Convert(times, converted);
  return utimensat(AT_FDCWD, path, times != nullptr ? converted : nullptr, 0);
}
EXPORT int lutimes(const char* path, const timeval* times) noexcept {
  timespec converted[2];
  if (times != nullptr) Convert(times, converted);
  return utimensat(AT_FDCWD, path, times != nullptr ? converted : nullptr, AT_SYMLINK_NOFOLLOW);
}
EXPORT int utime(const char* path, const utimbuf* times) noexcept {
  if (times == nullptr) return utimes(path, nullptr);
  const timeval both[2] = {{times->actime, 0}, {times->modtime, 0}};
  return utimes(path, both);
}

EXPORT int truncate(const char* path, off_t size) noexcept {
  std::string below;
  if (!Below(AT_FDCWD, path, &below)) return NEXT(truncate)(path, size);
  return Done(Ask({Op::kSize, 0, size, 0, 1, below}).error);
}
EXPORT int truncate64(const char* path, off_t size) noexcept __attribute__((alias("truncate")));

EXPORT int chdir(const char* path) noexcept {
  std::string below;
  if (!Below(AT_FDCWD, path, &below)) return NEXT(chdir)(path);
  struct stat now = {};
  const int error = StatBelow(below, true, &now);
  if (error != 0) return Done(error);
  if (!S_ISDIR(now.st_mode)) return Done(ENOTDIR);
  return static_cast<int>(syscall(SYS_chdir, RealFolder(below).c_str()));
}

EXPORT char* realpath(const char* path, char* buffer) noexcept {
  std::string below;
  if (!Below(AT_FDCWD, path, &below)) return NEXT(realpath)(path, buffer);
  struct stat now = {};
  if (Done(StatBelow(below, true, &now)) != 0) return nullptr;
  const std::string root = RealFolder("");
  const std::string whole = below.empty() ? root : root + "/" + below;
  if (buffer == nullptr) return strdup(whole.c_str());
  return whole.size() < PATH_MAX ? strcpy(buffer, whole.c_str()) : nullptr;
}
EXPORT char* __realpath_chk(const char* path, char* buffer, size_t) {
  return realpath(path, buffer);
}
EXPORT char* canonicalize_file_name(const char* path) noexcept { return realpath(path, nullptr); }

EXPORT int mkostemps(char* pattern, int suffix, int flags) {
  return MakeTemporary(pattern, suffix, false, flags);
}
EXPORT int mkostemp(char* pattern, int flags) { return mkostemps(pattern, 0, flags); }
EXPORT int mkstemps(char* pattern, int suffix) { return mkostemps(pattern, suffix, 0); }
EXPORT int mkstemp(char* pattern) { return mkostemps(pattern, 0, 0); }
EXPORT int mkostemp64(char* pattern, int flags) { return mkostemps(pattern, 0, flags); }
EXPORT int mkstemp64(char* pattern) { return mkostemps(pattern, 0, 0); }
EXPORT char* mkdtemp(char* pattern) noexcept {
  return MakeTemporary(pattern, 0, true, 0) == 0 ? pattern : nullptr;
}
