// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "chunkstore/core/os/aio_writer.h"
#include "chunkstore/core/os/env.h"

namespace satchel {
namespace {

class PosixFile final : public File {
 public:
  // `access`: O_RDONLY or O_RDWR.
  PosixFile(int fd, int access, std::string path)
      : fd_(fd), access_(access), path_(std::move(path)) {}
  ~PosixFile() override {
    close(fd_);
    if (direct_ >= 0) close(direct_);
  }
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    *got = 0;
    while (*got < n) {
      const ssize_t r =
          pread(fd_, static_cast<char*>(out) + *got, n - *got, static_cast<off_t>(offset + *got));
      if (r < 0 && errno == EINTR) continue;
      if (r < 0) return Error("cannot read");
      if (r == 0) break;
      *got += static_cast<size_t>(r);
    }
    return {};
  }

  Status ReadPieces(uint64_t offset, const Piece* pieces, size_t n, size_t* got) override {
    constexpr size_t kMost = 1024;  // what the system takes (IOV_MAX)
    iovec parts[kMost];
    size_t size = 0;
    for (size_t i = 0; i < std::min(n, kMost); ++i) {
      parts[i] = iovec{pieces[i].data, pieces[i].size};
      size += pieces[i].size;
    }
    const ssize_t r =
        n > kMost ? -1 : preadv(fd_, parts, static_cast<int>(n), static_cast<off_t>(offset));
    if (r < 0 || static_cast<size_t>(r) != size) return File::ReadPieces(offset, pieces, n, got);
    *got = size;
    return {};
  }

  // Filling pages of the system's memory takes the processor longer than hashing what is in them,
  // so what is not there goes past it where the file system can do that (O_DIRECT). A read that
  // would rather fail than wait (RWF_NOWAIT) is no way to ask: it begins to read ahead.
  Status ReadUncached(uint64_t offset, size_t n, void* out, size_t* got) override {
    const uint64_t together = offset | n | reinterpret_cast<uintptr_t>(out);
    const bool aligned = n > 0 && together % kUncachedAlign == 0;
    if (!aligned || InMemory(offset, n) || !OpenDirect()) return ReadAt(offset, n, out, got);
    *got = 0;
    // A short read ends at the end of the file, or leaves a rest that is not aligned.
    while (*got < n && *got % kUncachedAlign == 0) {
      const ssize_t r = pread(direct_, static_cast<char*>(out) + *got, n - *got,
                              static_cast<off_t>(offset + *got));
      if (r < 0 && errno == EINTR) continue;
      if (r < 0 && errno == EINVAL) direct_works_ = false;  // not here after all
      if (r < 0 && errno != EINVAL) return Error("cannot read");
      if (r <= 0) break;
      *got += static_cast<size_t>(r);
    }
    size_t rest = 0;
    SATCHEL_RETURN_IF_ERROR(ReadAt(offset + *got, n - *got, static_cast<char*>(out) + *got, &rest));
    *got += rest;
    return {};
  }

  Status WriteAt(uint64_t offset, const void* data, size_t n) override {
    size_t done = 0;
    while (done < n) {
      const ssize_t r = pwrite(fd_, static_cast<const char*>(data) + done, n - done,
                               static_cast<off_t>(offset + done));
      if (r < 0 && errno == EINTR) continue;
      if (r < 0) return Error("cannot write");
      done += static_cast<size_t>(r);
    }
    return {};
  }

  // Whole pages go past the system's memory, as in ReadUncached. The ends of a piece, which share
  // pages with their neighbours, never do: a page is written in one way only at a time.
  Status WriteUncached(uint64_t offset, const void* data, size_t n) override {
    const uint64_t begin = (offset + kUncachedAlign - 1) / kUncachedAlign * kUncachedAlign;
    const uint64_t end = (offset + n) / kUncachedAlign * kUncachedAlign;
    const char* const from = static_cast<const char*>(data);
    const bool aligned = (reinterpret_cast<uintptr_t>(data) - offset) % kUncachedAlign == 0;
    if (!aligned || begin >= end || !OpenDirect()) return WriteAt(offset, data, n);
    SATCHEL_RETURN_IF_ERROR(WriteAt(offset, from, begin - offset));
    SATCHEL_RETURN_IF_ERROR(WriteDirect(begin, from + (begin - offset), end - begin));
    return WriteAt(end, from + (end - offset), offset + n - end);
  }

  std::unique_ptr<AsyncWriter> MakeAsyncWriter() override {
    std::unique_ptr<AsyncWriter> writer;
    if (OpenDirect()) writer = MakeAioWriter(this, direct_);
    return writer != nullptr ? std::move(writer) : File::MakeAsyncWriter();
  }

  Status Truncate(uint64_t size) override {
    return ftruncate(fd_, static_cast<off_t>(size)) == 0 ? Status() : Error("cannot resize");
  }

  Status PunchHole(uint64_t offset, uint64_t length) override {
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    const int r = fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length));
    return r == 0 ? Status() : Error("cannot give back space of");
  }

  Status Sync() override { return fdatasync(fd_) == 0 ? Status() : Error("cannot sync"); }

  void StartWriting(uint64_t offset, uint64_t length, uint64_t behind) override {
    const auto size = static_cast<off64_t>(length);
    (void)sync_file_range(fd_, static_cast<off64_t>(offset), size, SYNC_FILE_RANGE_WRITE);
    if (offset < behind) return;
    (void)sync_file_range(fd_, static_cast<off64_t>(offset - behind), size,
                          SYNC_FILE_RANGE_WAIT_BEFORE);
  }

  void DropCached(uint64_t offset, uint64_t length) override {
    (void)posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(length),
                        POSIX_FADV_DONTNEED);
  }

  Status Size(uint64_t* size) override {
    const off_t end = lseek(fd_, 0, SEEK_END);
    if (end < 0) return Error("cannot find the size of");
    *size = static_cast<uint64_t>(end);
    return {};
  }

  Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) override {
    uint64_t size = 0;
    SATCHEL_RETURN_IF_ERROR(Size(&size));
    *begin = *end = size;
    if (offset >= size) return {};
    const off_t data = lseek(fd_, static_cast<off_t>(offset), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};
    if (data < 0) {  // no holes known here (a block device, an old file system)
      *begin = offset;
      return {};
    }
    const off_t hole = lseek(fd_, data, SEEK_HOLE);
    *begin = static_cast<uint64_t>(data);
    if (hole > data) *end = static_cast<uint64_t>(hole);
    return {};
  }

 private:
  static constexpr size_t kLooks = 8;

  // Through the open file, because its name may be another's by now. -1 where it cannot be had.
  bool OpenDirect() {
    std::call_once(direct_once_, [this] {
      const std::string self = "/proc/self/fd/" + std::to_string(fd_);
      direct_ = open(self.c_str(), access_ | O_DIRECT | O_CLOEXEC);
    });
    return direct_ >= 0 && direct_works_;
  }

  // Whether the system has the range in its memory, going by a few of its pages. A file of which
  // it does not say so to us (mincore) counts as there.
  bool InMemory(uint64_t offset, size_t n) const {
    void* const range = mmap(nullptr, n, PROT_READ, MAP_SHARED, fd_, static_cast<off_t>(offset));
    if (range == MAP_FAILED) return true;
    bool there = true;
    const size_t pages = n / kUncachedAlign;
    for (size_t i = 0; i < kLooks && there; ++i) {
      unsigned char page = 0;
      char* const at = static_cast<char*>(range) + i * pages / kLooks * kUncachedAlign;
      there = mincore(at, 1, &page) != 0 || (page & 1) != 0;
    }
    munmap(range, n);
    return there;
  }

  // Of whole pages, in whole pages of memory.
  Status WriteDirect(uint64_t offset, const char* data, size_t n) {
    for (size_t done = 0; done < n;) {
      const ssize_t r = pwrite(direct_, data + done, n - done, static_cast<off_t>(offset + done));
      if (r < 0 && errno == EINTR) continue;
      if (r < 0 && errno != EINVAL) return Error("cannot write");
      if (r < 0) direct_works_ = false;  // not here after all
      if (r > 0) done += static_cast<size_t>(r);
      // A short write leaves a rest that is not aligned.
      if (r < 0 || done % kUncachedAlign != 0) return WriteAt(offset + done, data + done, n - done);
    }
    return {};
  }

  Status Error(const char* verb) const {
    return Status::FromErrno(std::string(verb) + " " + path_, errno);
  }

  const int fd_;
  const int access_;
  const std::string path_;
  std::once_flag direct_once_;
  int direct_ = -1;  // the same file, past the system's memory
  std::atomic<bool> direct_works_{true};
};

// The file says who holds it, for a message to others; the lock itself ends with the process.
class PosixLock final : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}
  ~PosixLock() override {
    if (named_) Write("\n");
    close(fd_);
  }
  PosixLock(const PosixLock&) = delete;
  PosixLock& operator=(const PosixLock&) = delete;

  Status Take(const std::string& path, int operation) {
    if (flock(fd_, operation | LOCK_NB) == 0) return {};
    if (errno != EWOULDBLOCK) return Status::FromErrno("cannot lock " + path, errno);
    return Status::Make(Kind::kLocked, "cannot lock " + path, Holder());
  }

  // As the system has it, or else as the file says, in which who only reads writes nothing.
  std::string Holder() const {
    struct stat info;
    if (fstat(fd_, &info) != 0) return {};
    char file[64];
    std::snprintf(file, sizeof file, "%02x:%02x:%ju", major(info.st_dev), minor(info.st_dev),
                  static_cast<uintmax_t>(info.st_ino));
    std::ifstream locks("/proc/locks");  // NUMBER: FLOCK ADVISORY READ PID MAJOR:MINOR:INODE ...
    for (std::string line; std::getline(locks, line);) {
      std::istringstream words(line);
      std::string word, kind, pid, place;
      words >> word >> kind >> word >> word >> pid >> place;
      if (kind == "FLOCK" && place == file) return pid;
    }
    char text[32] = "";
    if (pread(fd_, text, sizeof text - 1, 0) < 0) text[0] = '\0';
    const std::string pid = text;
    return pid.substr(0, pid.find('\n'));
  }

  void Name() { named_ = Write(std::to_string(getpid()) + "\n"); }

 private:
  // Over what is there: on a disk that is full there may be no room for it once more.
  bool Write(const std::string& text) const {
    const auto size = static_cast<ssize_t>(text.size());
    return pwrite(fd_, text.data(), text.size(), 0) == size && ftruncate(fd_, size) == 0;
  }

  const int fd_;
  bool named_ = false;
};

// No file of a store or a medium is a link, a FIFO or a device. A stranger may have put one there:
// a link leads a write out of the folder, and a FIFO keeps its opener for ever.
Status OpenRegular(const std::string& path, int flags, mode_t made, int* opened) {
  const int fd = open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, made);
  // ENXIO: a FIFO that nobody reads, or a socket.
  if (fd < 0 && errno != ELOOP && errno != ENXIO) {
    return Status::FromErrno("cannot open " + path, errno);
  }
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (fd >= 0) close(fd);
    return Status::Make(Kind::kDamaged, "cannot open " + path, "it is no regular file");
  }
  *opened = fd;
  return {};
}

class PosixEnvImpl final : public Env {
 public:
  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override {
    const int access = mode == OpenMode::kRead ? O_RDONLY : O_RDWR;
    const int create = Creates(mode) ? O_CREAT | O_EXCL : 0;
    const mode_t made = mode == OpenMode::kCreateOwn ? 0600 : 0666;
    int fd = -1;
    SATCHEL_RETURN_IF_ERROR(OpenRegular(path, access | create, made, &fd));
    *file = std::make_unique<PosixFile>(fd, access, path);
    return {};
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return {};
    return Status::FromErrno("cannot rename " + from + " to " + to, errno);
  }

  Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return {};
    return Status::FromErrno("cannot remove " + path, errno);
  }

  Status RemoveDir(const std::string& path) override {
    if (rmdir(path.c_str()) == 0) return {};
    return Status::FromErrno("cannot remove the folder " + path, errno);
  }

  Status MakeDir(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return {};
    return Status::FromErrno("cannot make the folder " + path, errno);
  }

  Status SyncDir(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return Status::FromErrno("cannot open the folder " + path, errno);
    const int r = fsync(fd);
    const int error = errno;
    close(fd);
    // Some FUSE file systems do not know fsync of a folder; there is nothing more to be had there.
    if (r == 0 || error == EINVAL || error == ENOSYS) return {};
    return Status::FromErrno("cannot sync the folder " + path, error);
  }

  Status List(const std::string& path, std::vector<std::string>* names) override {
    names->clear();
    DIR* dir = opendir(path.c_str());
    if (dir == nullptr) return Status::FromErrno("cannot list " + path, errno);
    errno = 0;
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names->push_back(name);
    }
    const int error = errno;
    closedir(dir);
    if (error != 0) return Status::FromErrno("cannot list " + path, error);
    std::sort(names->begin(), names->end());
    return {};
  }

  bool Exists(const std::string& path) override { return access(path.c_str(), F_OK) == 0; }

  Status FreeBytes(const std::string& path, uint64_t* bytes) override {
    struct statvfs info;
    if (statvfs(path.c_str(), &info) != 0) {
      return Status::FromErrno("cannot find the free space of " + path, errno);
    }
    *bytes = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
    return {};
  }

  Status Lock(const std::string& path, std::unique_ptr<FileLock>* lock) override {
    int fd = -1;
    SATCHEL_RETURN_IF_ERROR(OpenRegular(path, O_RDWR | O_CREAT, 0666, &fd));
    auto held = std::make_unique<PosixLock>(fd);
    SATCHEL_RETURN_IF_ERROR(held->Take(path, LOCK_EX));
    held->Name();
    *lock = std::move(held);
    return {};
  }

  Status LockShared(const std::string& path, std::unique_ptr<FileLock>* lock) override {
    int fd = -1;
    SATCHEL_RETURN_IF_ERROR(OpenRegular(path, O_RDONLY, 0, &fd));
    auto held = std::make_unique<PosixLock>(fd);
    SATCHEL_RETURN_IF_ERROR(held->Take(path, LOCK_SH));
    *lock = std::move(held);
    return {};
  }
};

}  // namespace

Status OpenLinked(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) {
  const int access = mode == OpenMode::kRead ? O_RDONLY : O_RDWR;
  const int fd = open(path.c_str(), access | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno("cannot open " + path, errno);
  *file = std::make_unique<PosixFile>(fd, access, path);
  return {};
}

Env* PosixEnv() {
  static Env* const env = new PosixEnvImpl;
  return env;
}

}  // namespace satchel
