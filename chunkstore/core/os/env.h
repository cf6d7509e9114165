// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The one seam between the engine and the system. Every write, sync, rename, truncate and removal
// of the core and of its LevelDB (index_env.h) goes through an Env, so that a test can record, fail
// or reorder them; only block maps, which live no longer than their attachment, are mapped
// directly. Paths are absolute or relative to the working directory, as given by the caller.
//
// Thread safety: an Env may be used by all threads. A File may be read by all threads at once;
// writes to one File are serialised by its owner.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_ENV_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_ENV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/os/status.h"

namespace satchel {

enum class OpenMode : uint8_t {
  kRead,       // must exist
  kReadWrite,  // must exist
  kCreate,     // read and write, must not exist
  kCreateOwn,  // the same, and no other user may read it
};

inline bool Creates(OpenMode mode) {
  return mode == OpenMode::kCreate || mode == OpenMode::kCreateOwn;
}

// Writes to one file that go on while who began them does something else. For one thread at a time.
class AsyncWriter {
 public:
  virtual ~AsyncWriter() = default;  // what was begun has ended

  // Begins what File::WriteUncached does. `data` stays as it is until Wait returns. An error may be
  // that of an earlier write.
  virtual Status Write(uint64_t offset, const void* data, size_t n) = 0;

  // Returns when all that was begun has ended: the first error of any.
  virtual Status Wait() = 0;
};

class File {
 public:
  virtual ~File() = default;

  // Reads up to `n` bytes; fewer only at the end of the file.
  virtual Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) = 0;

  // The same to several places, one behind the other in the file.
  struct Piece {
    void* data;
    size_t size;
  };
  virtual Status ReadPieces(uint64_t offset, const Piece* pieces, size_t n, size_t* got);

  // ReadAt of much that is not read again soon: what the system does not have in its memory need
  // not come there. It goes past it where the offset, `n` and `out` are multiples of
  // kUncachedAlign.
  virtual Status ReadUncached(uint64_t offset, size_t n, void* out, size_t* got) {
    return ReadAt(offset, n, out, got);
  }
  static constexpr size_t kUncachedAlign = 4096;

  virtual Status WriteAt(uint64_t offset, const void* data, size_t n) = 0;

  // The same, of much that is not read soon: it need not stay in the system's memory. It goes past
  // it where `offset` and `data` leave the same rest when divided by kUncachedAlign. By several
  // threads at once, if no two write to the same bytes.
  virtual Status WriteUncached(uint64_t offset, const void* data, size_t n) {
    return WriteAt(offset, data, n);
  }

  // The file outlives the writer. One that does each write before Write returns, unless the system
  // can do better.
  virtual std::unique_ptr<AsyncWriter> MakeAsyncWriter();

  virtual Status Truncate(uint64_t size) = 0;
  virtual Status PunchHole(uint64_t offset, uint64_t length) = 0;

  // Writes what Sync would have to write beside what was given to it, so that the folder can be
  // synced between the two.
  virtual Status Finish() { return {}; }

  // Makes everything written so far durable, the size included.
  virtual Status Sync() = 0;

  // The system begins to write [offset, offset + length), so that Sync has less to wait for;
  // returns when it has written what begins `behind` bytes before that. A hint.
  virtual void StartWriting(uint64_t offset, uint64_t length, uint64_t behind) {
    (void)offset;
    (void)length;
    (void)behind;
  }

  // The system need not keep what is durable of [offset, offset + length) in memory. A hint.
  virtual void DropCached(uint64_t offset, uint64_t length) {
    (void)offset;
    (void)length;
  }

  // Bytes in the file, or in the block device.
  virtual Status Size(uint64_t* size) = 0;

  // The next extent with data at or after `offset`: [*begin, *end). At the end of the file, or
  // with nothing but a hole left, *begin == *end. A file system without holes gives one extent.
  virtual Status NextData(uint64_t offset, uint64_t* begin, uint64_t* end) = 0;
};

// Held until destroyed, or until the process ends in any way.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class Env {
 public:
  virtual ~Env() = default;

  // What is there and is no regular file (a symbolic link, a FIFO, a device) is kDamaged.
  virtual Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status Remove(const std::string& path) = 0;

  // Of an empty folder.
  virtual Status RemoveDir(const std::string& path) = 0;

  // Not an error when it is there already.
  virtual Status MakeDir(const std::string& path) = 0;

  // Makes names made, renamed and removed in the folder durable.
  virtual Status SyncDir(const std::string& path) = 0;

  // Names in the folder, sorted, without "." and "..".
  virtual Status List(const std::string& path, std::vector<std::string>* names) = 0;
  virtual bool Exists(const std::string& path) = 0;
  virtual Status FreeBytes(const std::string& path, uint64_t* bytes) = 0;

  // What files with so many bytes of content take at most, the last cluster aside.
  virtual uint64_t Room(uint64_t bytes) { return bytes; }

  // kLocked, with the holder's process id in why() if it is known, when somebody holds it.
  virtual Status Lock(const std::string& path, std::unique_ptr<FileLock>* lock) = 0;

  // The same lock for several at a time, who write nothing, not to that file either. kNotFound
  // where it was never held by one alone.
  virtual Status LockShared(const std::string& path, std::unique_ptr<FileLock>* lock) {
    return Lock(path, lock);
  }
};

// The operating system. Never destroyed.
Env* PosixEnv();

// A file of the system's at a path that may be a link or a device, as a disk to be imported or what
// is in /proc/PID/fd. kRead or kReadWrite. Not for paths below a folder that strangers write.
Status OpenLinked(const std::string& path, OpenMode mode, std::unique_ptr<File>* file);

// Reads a whole file of at most `limit` bytes; a larger one is kDamaged.
Status ReadFile(Env* env, const std::string& path, size_t limit, std::string* out);

// Writes NAME.tmp beside `path`, syncs it, renames it into place and syncs the folder.
Status WriteFileDurably(Env* env, const std::string& path, const std::string& data);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_ENV_H_
