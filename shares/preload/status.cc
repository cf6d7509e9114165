// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Attributes: the stat family, access, and extended attributes, of which a share has those that say
// something to the node.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "shares/preload/files.h"
#include "shares/preload/place.h"

namespace satchel::preload {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr dev_t kDevice = 0x5a7c;  // no device of the kernel's
constexpr unsigned kBlock = 4096;

struct Status {  // as messages.py has it
  uint64_t file, mode, links, uid, gid, size;
  int64_t accessed, modified, changed;
};
static_assert(sizeof(Status) == 72, "as messages.py has it");

timespec TimeOf(int64_t nanoseconds) {
  int64_t rest = nanoseconds % kSecond;
  if (rest < 0) rest += kSecond;
  return {(nanoseconds - rest) / kSecond, rest};
}

int StatOf(const Reply& reply, struct stat* out) {
  if (reply.error != 0) return reply.error;
  Status status;
  if (reply.data.size() != sizeof status) return EIO;
  memcpy(&status, reply.data.data(), sizeof status);
  *out = {};
  out->st_dev = kDevice;
  out->st_ino = status.file;
  out->st_mode = static_cast<mode_t>(status.mode);
  out->st_nlink = status.links;
  out->st_uid = static_cast<uid_t>(status.uid);
  out->st_gid = static_cast<gid_t>(status.gid);
  out->st_size = static_cast<off_t>(status.size);
  out->st_blksize = kBlock;
  out->st_blocks = static_cast<blkcnt_t>((status.size + 511) / 512);
  out->st_atim = TimeOf(status.accessed);
  out->st_mtim = TimeOf(status.modified);
  out->st_ctim = TimeOf(status.changed);
  return 0;
}

// Whether the descriptor is of the share; then its attributes, or errno.
bool StatOpen(int fd, struct stat* out, int* error) {
  const uint64_t file = FileOf(fd);
  std::string below;
  if (file != 0) {
    *error = StatFile(file, out);
    return true;
  }
  if (!FolderOf(fd, &below)) return false;
  *error = StatBelow(below, true, out);
  return true;
}

int Allowed(const std::string& below, int wanted, bool follows) {
  struct stat now = {};
  const int error = StatBelow(below, follows, &now);
  if (error != 0 || wanted == F_OK) return error;
  const bool runs = (now.st_mode & 0111) != 0 || S_ISDIR(now.st_mode);
  if (geteuid() == 0) return (wanted & X_OK) != 0 && !runs ? EACCES : 0;
  const unsigned shift = now.st_uid == geteuid() ? 6 : now.st_gid == getegid() ? 3 : 0;
  const int allowed = static_cast<int>(now.st_mode >> shift & 7);
  return (wanted & ~allowed) != 0 ? EACCES : 0;
}

statx_timestamp Stamp(const timespec& time) {
  statx_timestamp stamp = {};
  stamp.tv_sec = time.tv_sec;
  stamp.tv_nsec = static_cast<uint32_t>(time.tv_nsec);
  return stamp;
}

void Extend(const struct stat& now, struct statx* out) {
  *out = {};
  out->stx_mask = STATX_BASIC_STATS;
  out->stx_blksize = kBlock;
  out->stx_nlink = static_cast<uint32_t>(now.st_nlink);
  out->stx_uid = now.st_uid;
  out->stx_gid = now.st_gid;
  out->stx_mode = static_cast<uint16_t>(now.st_mode);
  out->stx_ino = now.st_ino;
  out->stx_size = static_cast<uint64_t>(now.st_size);
  out->stx_blocks = static_cast<uint64_t>(now.st_blocks);
  out->stx_atime = Stamp(now.st_atim);
  out->stx_mtime = Stamp(now.st_mtim);
  out->stx_ctime = Stamp(now.st_ctim);
  out->stx_dev_major = major(kDevice);
  out->stx_dev_minor = minor(kDevice);
}

// Whether the name, or with AT_EMPTY_PATH the descriptor, is of the share.
bool StatAt(int fd, const char* path, int flags, struct stat* out, int* error) {
  const bool itself = path == nullptr || *path == '\0';
  if (itself) return (flags & AT_EMPTY_PATH) != 0 && StatOpen(fd, out, error);
  std::string below;
  if (!Below(fd, path, &below)) return false;
  *error = StatBelow(below, (flags & AT_SYMLINK_NOFOLLOW) == 0, out);
  return true;
}

int Mark(const std::string& below, const char* name, const void* value, size_t size) {
  Request request = {Op::kMark, 0, 0, 0, value == nullptr ? 1U : 0U, below};
  request.data = std::string(name) + '\0';
  if (value != nullptr) request.data.append(static_cast<const char*>(value), size);
  return Done(Ask(request).error);
}

}  // namespace

int StatFile(uint64_t file, struct stat* out) { return StatOf(Ask({Op::kStatFile, file}), out); }

int StatBelow(const std::string& below, bool follows, struct stat* out) {
  return StatOf(Ask({Op::kStat, 0, 0, 0, follows ? 1U : 0U, below}), out);
}

}  // namespace satchel::preload

using namespace satchel::preload;  // NOLINT: what follows is C's names

EXPORT int fstatat(int fd, const char* path, struct stat* out, int flags) noexcept {
  int error = 0;
  if (StatAt(fd, path, flags, out, &error)) return Done(error);
  return NEXT(fstatat)(fd, path, out, flags);
}

EXPORT int stat(const char* path, struct stat* out) noexcept {
  int error = 0;
  if (path != nullptr && StatAt(AT_FDCWD, path, 0, out, &error)) return Done(error);
  return NEXT(fstatat)(AT_FDCWD, path, out, 0);
}

EXPORT int lstat(const char* path, struct stat* out) noexcept {
  int error = 0;
  const int flags = AT_SYMLINK_NOFOLLOW;
  if (path != nullptr && StatAt(AT_FDCWD, path, flags, out, &error)) return Done(error);
  return NEXT(fstatat)(AT_FDCWD, path, out, flags);
}

EXPORT int fstat(int fd, struct stat* out) noexcept {
  int error = 0;
  if (StatOpen(fd, out, &error)) return Done(error);
  return NEXT(fstat)(fd, out);
}

static_assert(sizeof(struct stat) == sizeof(struct stat64), "one is the other");
struct stat* Plain(struct stat64* out) {
  return reinterpret_cast<struct stat*>(out);
}

EXPORT int fstatat64(int fd, const char* path, struct stat64* out, int flags) noexcept {
  return fstatat(fd, path, Plain(out), flags);
}
EXPORT int stat64(const char* path, struct stat64* out) noexcept { return stat(path, Plain(out)); }
EXPORT int lstat64(const char* path, struct stat64* out) noexcept {
  return lstat(path, Plain(out));
}
EXPORT int fstat64(int fd, struct stat64* out) noexcept { return fstat(fd, Plain(out)); }

// What programs call that were built against an older C library.
EXPORT int __xstat(int, const char* path, struct stat* out) { return stat(path, out); }
EXPORT int __lxstat(int, const char* path, struct stat* out) { return lstat(path, out); }
EXPORT int __fxstat(int, int fd, struct stat* out) { return fstat(fd, out); }
EXPORT int __fxstatat(int, int fd, const char* path, struct stat* out, int flags) {
  return fstatat(fd, path, out, flags);
}
EXPORT int __xstat64(int, const char* path, struct stat* out) { return stat(path, out); }
EXPORT int __lxstat64(int, const char* path, struct stat* out) { return lstat(path, out); }
EXPORT int __fxstat64(int, int fd, struct stat* out) { return fstat(fd, out); }
EXPORT int __fxstatat64(int, int fd, const char* path, struct stat* out, int flags) {
  return fstatat(fd, path, out, flags);
}

EXPORT int statx(int fd, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  struct stat now = {};
  int error = 0;
  if (!StatAt(fd, path, flags, &now, &error)) return NEXT(statx)(fd, path, flags, mask, out);
  if (error == 0) Extend(now, out);
  return Done(error);
}

EXPORT int faccessat(int fd, const char* path, int wanted, int flags) noexcept {
  std::string below;
  if (!Below(fd, path, &below)) return NEXT(faccessat)(fd, path, wanted, flags);
  return Done(Allowed(below, wanted, (flags & AT_SYMLINK_NOFOLLOW) == 0));
}
EXPORT int access(const char* path, int wanted) noexcept {
  return faccessat(AT_FDCWD, path, wanted, 0);
}
EXPORT int euidaccess(const char* path, int wanted) noexcept {
  return faccessat(AT_FDCWD, path, wanted, AT_EACCESS);
}
EXPORT int eaccess(const char* path, int wanted) noexcept { return euidaccess(path, wanted); }

EXPORT int setxattr(const char* path, const char* name, const void* value, size_t size,
                    int flags) noexcept {
  std::string below;
  if (!Below(AT_FDCWD, path, &below)) return NEXT(setxattr)(path, name, value, size, flags);
  return Mark(below, name, value == nullptr ? "" : value, size);
}
EXPORT int removexattr(const char* path, const char* name) noexcept {
  std::string below;
  if (!Below(AT_FDCWD, path, &below)) return NEXT(removexattr)(path, name);
  return Mark(below, name, nullptr, 0);
}
EXPORT ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  std::string below;
  return Below(AT_FDCWD, path, &below) ? Done(ENOTSUP) : NEXT(getxattr)(path, name, value, size);
}
EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  std::string below;
  return Below(AT_FDCWD, path, &below) ? Done(ENOTSUP) : NEXT(lgetxattr)(path, name, value, size);
}
EXPORT ssize_t fgetxattr(int fd, const char* name, void* value, size_t size) noexcept {
  return FileOf(fd) != 0 ? Done(ENOTSUP) : NEXT(fgetxattr)(fd, name, value, size);
}
EXPORT int fsetxattr(int fd, const char* name, const void* value, size_t size, int flags) noexcept {
  return FileOf(fd) != 0 ? Done(ENOTSUP) : NEXT(fsetxattr)(fd, name, value, size, flags);
}
EXPORT ssize_t listxattr(const char* path, char* list, size_t size) noexcept {
  std::string below;
  return Below(AT_FDCWD, path, &below) ? 0 : NEXT(listxattr)(path, list, size);
}
EXPORT ssize_t llistxattr(const char* path, char* list, size_t size) noexcept {
  std::string below;
  return Below(AT_FDCWD, path, &below) ? 0 : NEXT(llistxattr)(path, list, size);
}
EXPORT ssize_t flistxattr(int fd, char* list, size_t size) noexcept {
  return FileOf(fd) != 0 ? 0 : NEXT(flistxattr)(fd, list, size);
}
