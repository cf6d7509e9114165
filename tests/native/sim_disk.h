// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A disk in memory that forgets what was not synced. It is an Env, so a whole store, its LevelDB
// included, runs on it; what was done to it is in a journal, from which the states are made that a
// power cut could have left.
//
// The model is stricter than any one file system:
//   - data of a file is durable once the file was synced after it was written; each 512-byte sector
//     on its own
//   - the size of a file is durable with its data; an unsynced write may leave the size without the
//     bytes, which then are zero or junk
//   - a name is durable once its folder was synced after it was made, changed or removed; syncing a
//     file does nothing for its name
//   - a sync of a file that fails drops what it should have saved: a second one succeeds and saves
//     nothing (what Linux does with dirty pages after an I/O error). Names wait for another sync
//   - unsynced changes to names survive in order, as with a journal, or any of them, as with FAT
#ifndef SATCHEL_TESTS_NATIVE_SIM_DISK_H_
#define SATCHEL_TESTS_NATIVE_SIM_DISK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "chunkstore/core/os/env.h"

namespace satchel::sim {

constexpr uint64_t kSector = 512;

// SplitMix64: the same numbers from the same seed everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  uint64_t Below(uint64_t n) { return Next() % n; }
  bool Chance(uint64_t percent) { return Below(100) < percent; }

 private:
  uint64_t state_;
};

// A file or a folder. Content is shared between images until one of them writes to it.
struct Node {
  bool folder = false;
  std::shared_ptr<std::string> data;
  std::map<std::string, uint64_t, std::less<>> names;  // of a folder
  mutable uint64_t digest = 0;                         // of `data`; 0: not known
};

struct Image {
  Image();  // an empty root folder

  const Node* Find(const std::string& path) const;

  // Every file's path, sorted.
  std::vector<std::string> Files() const;

  // Of all names and the bytes that they lead to: equal ones are the same to whoever opens them.
  uint64_t Digest() const;

  // Replaces the content of a file that is there.
  void SetContent(const std::string& path, std::string content);

  std::map<uint64_t, Node> nodes;
  uint64_t next = 2;
};

struct Op {
  enum class Type : uint8_t {
    kWrite,
    kTruncate,
    kPunch,
    kSync,
    kFailedSync,
    kLink,  // a name for a new file or folder
    kUnlink,
    kRename,
    kSyncFolder,
    kFailedSyncFolder,
  };

  Type type;
  uint64_t node;                            // the file, or the folder that the name is in
  std::shared_ptr<const std::string> path;  // one for all of an open file
  uint64_t offset = 0;                      // or the new size
  uint64_t length = 0;
  std::shared_ptr<const std::string> data{};
  std::string name{};
  std::string to{};
  uint64_t target = 0;  // what the name names
  bool folder = false;  // the new node is a folder

  std::string ToString() const;
};

// A call of the disk that is made to fail.
struct Fault {
  enum class Calls : uint8_t { kChanges, kReads };

  Calls calls = Calls::kChanges;
  uint64_t site = 0;      // fails the call of this number, counted from 0
  bool for_good = false;  // and all after it
  bool partial = false;   // a write gets half of its bytes to the file first
  int error = 5;          // errno, EIO
};

class SimDisk final : public Env {
 public:
  SimDisk() = default;
  explicit SimDisk(Image image) : base_(image), live_(std::move(image)) {}

  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Remove(const std::string& path) override;
  Status RemoveDir(const std::string& path) override;
  Status MakeDir(const std::string& path) override;
  Status SyncDir(const std::string& path) override;
  Status List(const std::string& path, std::vector<std::string>* names) override;
  bool Exists(const std::string& path) override;
  Status FreeBytes(const std::string& path, uint64_t* bytes) override;
  Status Lock(const std::string& path, std::unique_ptr<FileLock>* lock) override;

  // What the processes see, which is what is left when they are killed.
  Image Live() const;

  // What was there when the disk was made, and what happened since.
  const Image& base() const { return base_; }
  std::vector<Op> Journal() const;
  const std::vector<Op>& journal() const { return journal_; }  // once nobody uses it any more
  size_t Position() const;                                     // entries of the journal so far

  // From now on syncs of files, or of folders, only pretend.
  void Pretend(bool files, bool folders);

  void SetFault(const Fault& fault);
  void Heal();  // no call fails any more
  bool failed() const;
  uint64_t Calls(Fault::Calls calls) const;  // that were made so far
  std::string FailedCall() const;            // what the first failed call was to do

 private:
  class OpenFile;
  class HeldLock;

  // The functions below are called with the mutex held.
  Status Injected(Fault::Calls calls, const char* verb, const std::string& path);
  bool Broken(Fault::Calls calls, const char* verb, const std::string& path);
  Status Lookup(const std::string& path, uint64_t* node) const;
  Status LookupParent(const std::string& path, uint64_t* folder, std::string* name) const;
  Status Unlink(const std::string& path, bool folder);

  mutable std::mutex mutex_;
  const Image base_;
  Image live_;
  std::vector<Op> journal_;
  std::set<std::string> locks_;
  bool pretend_files_ = false;
  bool pretend_folders_ = false;
  bool armed_ = false;
  Fault fault_;
  uint64_t calls_[2] = {};
  std::string failed_call_;
};

// Walks along a journal and knows at each place what is durable and what is not.
class Durability {
 public:
  explicit Durability(Image base) : durable_(std::move(base)) {}

  void Advance(const Op& op);

  // What a power cut now leaves: what is durable and some of the rest. `how` 0 is none of the rest,
  // 1 all of it; else a manner of its own is drawn for every state.
  Image Crash(uint64_t how, Random* random) const;

  // Changes that are not durable yet.
  size_t pending() const;

 private:
  Image Named() const;

  Image durable_;
  std::map<uint64_t, std::vector<Op>> data_;  // unsynced, by file
  std::vector<Op> names_;                     // unsynced, of all folders, in order
};

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_SIM_DISK_H_
