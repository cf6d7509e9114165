// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Open files: open, read, write, offsets, locks, and what else is asked of a descriptor.
#include "shares/preload/files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "shares/preload/place.h"

namespace satchel::preload {
namespace {

constexpr size_t kPiece = 1U << 20;  // bytes of one request
constexpr int kKernelFlags = O_ACCMODE | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_SYNC;

int64_t Offset(int fd) { return syscall(SYS_lseek, fd, 0, SEEK_CUR); }

void SetOffset(int fd, int64_t offset) { syscall(SYS_lseek, fd, offset, SEEK_SET); }

uint32_t Flags(int fd) { return static_cast<uint32_t>(syscall(SYS_fcntl, fd, F_GETFL, 0)); }

bool Allows(int fd, bool writes) {
  const uint32_t access = Flags(fd) & O_ACCMODE;
  if (access == O_RDWR || (access == O_WRONLY) == writes) return true;
  errno = EBADF;
  return false;
}

int OpenFolder(const std::string& below, int flags) {
  if ((flags & O_ACCMODE) != O_RDONLY) return Done(EISDIR);
  const std::string real = RealFolder(below);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, real.c_str(), flags & ~O_CREAT, 0));
}

}  // namespace

int OpenBelow(const std::string& below, int flags, mode_t mode) {
  const Reply reply =
      Ask({Op::kOpen, 0, static_cast<int64_t>(mode), 0, static_cast<uint32_t>(flags), below});
  if (reply.error == EISDIR && (flags & O_ACCMODE) == O_RDONLY) return OpenFolder(below, flags);
  if (reply.error != 0) return Done(reply.error);
  if ((flags & O_DIRECTORY) != 0) return Done(ENOTDIR);
  const uint64_t file = static_cast<uint64_t>(reply.value);
  const std::string real = RealFile(file);
  const int fd =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, real.c_str(), flags & kKernelFlags, 0));
  if (fd < 0) return fd;
  // Held for as long as the file is open anywhere, whoever inherits it: the node looks at that.
  syscall(SYS_flock, fd, LOCK_SH);
  NoteFile(fd, file);
  return fd;
}

ssize_t ReadAt(int fd, uint64_t file, void* buffer, size_t size, int64_t offset) {
  if (!Allows(fd, false)) return -1;
  size_t done = 0;
  while (done < size) {
    const size_t piece = std::min(size - done, kPiece);
    const Reply reply = Ask({Op::kRead, file, offset + static_cast<int64_t>(done),
                             static_cast<int64_t>(piece), Flags(fd)});
    if (reply.error != 0) return done > 0 ? static_cast<ssize_t>(done) : Done(reply.error);
    const size_t got = std::min(reply.data.size(), piece);
    memcpy(static_cast<char*>(buffer) + done, reply.data.data(), got);
    done += got;
    if (got < piece) break;
  }
  return static_cast<ssize_t>(done);
}

ssize_t WriteAt(int fd, uint64_t file, const void* buffer, size_t size, int64_t* offset) {
  if (!Allows(fd, true)) return -1;
  size_t done = 0;
  while (done < size) {
    const size_t piece = std::min(size - done, kPiece);
    const int64_t at = *offset < 0 ? -1 : *offset + static_cast<int64_t>(done);
    const Reply reply = Ask({Op::kWrite,
                             file,
                             at,
                             0,
                             Flags(fd),
                             {},
                             std::string(static_cast<const char*>(buffer) + done, piece)});
    if (reply.error != 0) return done > 0 ? static_cast<ssize_t>(done) : Done(reply.error);
    done += piece;
    if (*offset < 0 && done >= size) *offset = -reply.value - 1;  // where the end is now
  }
  return static_cast<ssize_t>(done);
}

namespace {

ssize_t ReadNext(int fd, uint64_t file, void* buffer, size_t size) {
  const int64_t offset = Offset(fd);
  const ssize_t got = ReadAt(fd, file, buffer, size, offset);
  if (got > 0) SetOffset(fd, offset + got);
  return got;
}

ssize_t WriteNext(int fd, uint64_t file, const void* buffer, size_t size) {
  const bool appends = (Flags(fd) & O_APPEND) != 0;
  int64_t offset = appends ? -1 : Offset(fd);
  const ssize_t written = WriteAt(fd, file, buffer, size, &offset);
  if (written > 0) SetOffset(fd, appends ? -offset - 1 : offset + written);
  return written;
}

off_t Seek(int fd, uint64_t file, off_t offset, int whence) {
  if (whence == SEEK_SET || whence == SEEK_CUR) return syscall(SYS_lseek, fd, offset, whence);
  struct stat now = {};
  const int error = StatFile(file, &now);
  if (error != 0) return Done(error);
  if (whence == SEEK_END) return syscall(SYS_lseek, fd, now.st_size + offset, SEEK_SET);
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return Done(EINVAL);
  if (offset < 0 || offset >= now.st_size) return Done(ENXIO);
  return syscall(SYS_lseek, fd, whence == SEEK_DATA ? offset : now.st_size, SEEK_SET);
}

template <typename Each>
ssize_t ForEach(const iovec* vectors, int count, const Each& each) {
  ssize_t done = 0;
  for (int i = 0; i < count; ++i) {
    if (vectors[i].iov_len == 0) continue;
    const ssize_t part = each(vectors[i], done);
    if (part < 0) return done > 0 ? done : part;
    done += part;
    if (static_cast<size_t>(part) < vectors[i].iov_len) break;
  }
  return done;
}

int Resize(uint64_t file, off_t size) { return Done(Ask({Op::kSize, file, size, 0, 0}).error); }

int Lock(int fd, uint64_t file, int command, struct flock* lock) {
  const Reply reply = Ask({Op::kLock,
                           file,
                           command,
                           getpid(),
                           Flags(fd),
                           {},
                           std::string(reinterpret_cast<char*>(lock), sizeof *lock)});
  if (reply.error == 0 && reply.data.size() == sizeof *lock) {
    memcpy(lock, reply.data.data(), sizeof *lock);
  }
  return Done(reply.error);
}

int CloseOne(int fd) {
  const uint64_t file = FileOf(fd);
  int error = 0;
  if (file != 0) error = Ask({Op::kFlush, file, getpid(), 0, Flags(fd)}).error;
  NoteFile(fd, 0);
  const int closed = static_cast<int>(syscall(SYS_close, fd));
  return closed != 0 ? closed : Done(error);
}

// Content for a program that maps a file for itself: it is read at once.
void* Map(uint64_t file, int fd, void* address, size_t length, int protection, int flags,
          off_t offset) {
  if ((flags & MAP_TYPE) != MAP_PRIVATE && (protection & PROT_WRITE) != 0) {
    errno = ENODEV;
    return MAP_FAILED;
  }
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | (flags & MAP_FIXED);
  void* const found = reinterpret_cast<void*>(
      syscall(SYS_mmap, address, length, PROT_READ | PROT_WRITE, kind, -1, 0));
  if (found == MAP_FAILED) return found;
  if (ReadAt(fd, file, found, length, offset) < 0) {
    const int error = errno;
    munmap(found, length);
    errno = error;
    return MAP_FAILED;
  }
  mprotect(found, length, protection);
  return found;
}

}  // namespace
}  // namespace satchel::preload

using namespace satchel::preload;  // NOLINT: what follows is C's names

EXPORT int openat(int folder, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (__OPEN_NEEDS_MODE(flags)) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  std::string below;
  if (Below(folder, path, &below)) return OpenBelow(below, flags, mode);
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

EXPORT int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (__OPEN_NEEDS_MODE(flags)) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return openat(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char* path, int flags, ...) __attribute__((alias("open")));
EXPORT int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));

EXPORT int __open_2(const char* path, int flags) { return open(path, flags); }
EXPORT int __open64_2(const char* path, int flags) { return open(path, flags); }
EXPORT int __openat_2(int fd, const char* path, int flags) { return openat(fd, path, flags); }
EXPORT int __openat64_2(int fd, const char* path, int flags) { return openat(fd, path, flags); }

EXPORT int creat(const char* path, mode_t mode) {
  return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
EXPORT int creat64(const char* path, mode_t mode) { return creat(path, mode); }

EXPORT ssize_t read(int fd, void* buffer, size_t size) {
  const uint64_t file = FileOf(fd);
  return file != 0 ? ReadNext(fd, file, buffer, size) : NEXT(read)(fd, buffer, size);
}

EXPORT ssize_t __read_chk(int fd, void* buffer, size_t size, size_t) {
  return read(fd, buffer, size);
}

EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
  const uint64_t file = FileOf(fd);
  return file != 0 ? WriteNext(fd, file, buffer, size) : NEXT(write)(fd, buffer, size);
}

EXPORT ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  const uint64_t file = FileOf(fd);
  return file != 0 ? ReadAt(fd, file, buffer, size, offset) : NEXT(pread)(fd, buffer, size, offset);
}
EXPORT ssize_t pread64(int fd, void* buffer, size_t size, off_t offset)
    __attribute__((alias("pread")));
EXPORT ssize_t __pread_chk(int fd, void* buffer, size_t size, off_t offset, size_t) {
  return pread(fd, buffer, size, offset);
}
EXPORT ssize_t __pread64_chk(int fd, void* buffer, size_t size, off_t offset, size_t) {
  return pread(fd, buffer, size, offset);
}

EXPORT ssize_t pwrite(int fd, const void* buffer, size_t size, off_t offset) {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(pwrite)(fd, buffer, size, offset);
  if (offset < 0) return Done(EINVAL);
  int64_t at = offset;
  return WriteAt(fd, file, buffer, size, &at);
}
EXPORT ssize_t pwrite64(int fd, const void* buffer, size_t size, off_t offset)
    __attribute__((alias("pwrite")));

EXPORT ssize_t readv(int fd, const iovec* vectors, int count) {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(readv)(fd, vectors, count);
  return ForEach(vectors, count, [&](const iovec& one, ssize_t) {
    return ReadNext(fd, file, one.iov_base, one.iov_len);
  });
}

EXPORT ssize_t writev(int fd, const iovec* vectors, int count) {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(writev)(fd, vectors, count);
  return ForEach(vectors, count, [&](const iovec& one, ssize_t) {
    return WriteNext(fd, file, one.iov_base, one.iov_len);
  });
}

EXPORT ssize_t preadv(int fd, const iovec* vectors, int count, off_t offset) {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(preadv)(fd, vectors, count, offset);
  return ForEach(vectors, count, [&](const iovec& one, ssize_t done) {
    return ReadAt(fd, file, one.iov_base, one.iov_len, offset + done);
  });
}
EXPORT ssize_t preadv64(int fd, const iovec* vectors, int count, off_t offset)
    __attribute__((alias("preadv")));

EXPORT ssize_t pwritev(int fd, const iovec* vectors, int count, off_t offset) {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(pwritev)(fd, vectors, count, offset);
  return ForEach(vectors, count, [&](const iovec& one, ssize_t done) {
    int64_t at = offset + done;
    return WriteAt(fd, file, one.iov_base, one.iov_len, &at);
  });
}
EXPORT ssize_t pwritev64(int fd, const iovec* vectors, int count, off_t offset)
    __attribute__((alias("pwritev")));

EXPORT off_t lseek(int fd, off_t offset, int whence) noexcept {
  const uint64_t file = FileOf(fd);
  return file != 0 ? Seek(fd, file, offset, whence) : syscall(SYS_lseek, fd, offset, whence);
}
EXPORT off_t lseek64(int fd, off_t offset, int whence) noexcept __attribute__((alias("lseek")));

EXPORT int close(int fd) {
  if (IsLine(fd)) return Done(EBADF);
  return CloseOne(fd);
}

EXPORT int dup2(int from, int to) noexcept {
  if (IsLine(to)) return Done(EBADF);
  if (from != to) NoteFile(to, 0);
  return NEXT(dup2)(from, to);
}

EXPORT int dup3(int from, int to, int flags) noexcept {
  if (IsLine(to)) return Done(EBADF);
  NoteFile(to, 0);
  return NEXT(dup3)(from, to, flags);
}

EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  if ((flags & CLOSE_RANGE_CLOEXEC) != 0) return NEXT(close_range)(first, last, flags);
  for (unsigned fd = first; fd <= std::min(last, 65535U); ++fd) {
    if (!IsLine(static_cast<int>(fd))) CloseOne(static_cast<int>(fd));
  }
  return 0;
}

EXPORT void closefrom(int first) noexcept { close_range(static_cast<unsigned>(first), ~0U, 0); }

EXPORT int ftruncate(int fd, off_t size) noexcept {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(ftruncate)(fd, size);
  return Allows(fd, true) ? Resize(file, size) : Done(EINVAL);
}
EXPORT int ftruncate64(int fd, off_t size) noexcept __attribute__((alias("ftruncate")));

EXPORT int fsync(int fd) {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(fsync)(fd);
  return Done(Ask({Op::kSync, file, 0, 0, Flags(fd)}).error);
}
EXPORT int fdatasync(int fd) { return FileOf(fd) != 0 ? fsync(fd) : NEXT(fdatasync)(fd); }

EXPORT int fallocate(int fd, int mode, off_t offset, off_t length) {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(fallocate)(fd, mode, offset, length);
  if (offset < 0 || length <= 0) return Done(EINVAL);
  if (!Allows(fd, true)) return -1;
  return Done(Ask({Op::kAllocate, file, offset, length, static_cast<uint32_t>(mode)}).error);
}
EXPORT int fallocate64(int fd, int mode, off_t offset, off_t length)
    __attribute__((alias("fallocate")));

// Says its error, and leaves errno as it was.
EXPORT int posix_fallocate(int fd, off_t offset, off_t length) {
  if (FileOf(fd) == 0) return NEXT(posix_fallocate)(fd, offset, length);
  const int before = errno;
  const int error = fallocate(fd, 0, offset, length) == 0 ? 0 : errno;
  errno = before;
  return error;
}
EXPORT int posix_fallocate64(int fd, off_t offset, off_t length)
    __attribute__((alias("posix_fallocate")));

EXPORT int flock(int fd, int operation) noexcept {
  const uint64_t file = FileOf(fd);
  if (file == 0) return NEXT(flock)(fd, operation);
  struct flock lock = {};
  const int kind = operation & ~LOCK_NB;
  lock.l_type = kind == LOCK_SH ? F_RDLCK : kind == LOCK_EX ? F_WRLCK : F_UNLCK;
  const int command = (operation & LOCK_NB) != 0 ? F_SETLK : F_SETLKW;
  const int done = Lock(fd, file, command, &lock);
  if (done != 0 && errno == EACCES) errno = EWOULDBLOCK;
  return done;
}

EXPORT int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool locks = command == F_GETLK || command == F_SETLK || command == F_SETLKW;
  const uint64_t file = locks ? FileOf(fd) : 0;
  if (file != 0) return Lock(fd, file, command, static_cast<struct flock*>(argument));
  return static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
}
EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const bool clones =
      request == FICLONE && FileOf(static_cast<int>(reinterpret_cast<intptr_t>(argument))) != 0;
  if (clones || FileOf(fd) != 0) return Done(request == FICLONE ? EOPNOTSUPP : ENOTTY);
  return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
}

EXPORT ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset,
                               size_t size, unsigned flags) {
  if (FileOf(from) != 0 || FileOf(to) != 0) return Done(EXDEV);
  return NEXT(copy_file_range)(from, from_offset, to, to_offset, size, flags);
}

EXPORT ssize_t sendfile(int to, int from, off_t* offset, size_t size) noexcept {
  if (FileOf(from) != 0 || FileOf(to) != 0) return Done(EINVAL);
  return NEXT(sendfile)(to, from, offset, size);
}
EXPORT ssize_t sendfile64(int to, int from, off_t* offset, size_t size) noexcept
    __attribute__((alias("sendfile")));

EXPORT ssize_t splice(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t size,
                      unsigned flags) {
  if (FileOf(from) != 0 || FileOf(to) != 0) return Done(EINVAL);
  return NEXT(splice)(from, from_offset, to, to_offset, size, flags);
}

EXPORT void* mmap(void* address, size_t length, int protection, int flags, int fd,
                  off_t offset) noexcept {
  const uint64_t file = (flags & MAP_ANONYMOUS) == 0 ? FileOf(fd) : 0;
  if (file != 0) return Map(file, fd, address, length, protection, flags, offset);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}
EXPORT void* mmap64(void* address, size_t length, int protection, int flags, int fd,
                    off_t offset) noexcept __attribute__((alias("mmap")));
