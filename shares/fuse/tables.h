// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What a session remembers of its open files and folders. Numbers may come from a guest, so they
// are looked up, never followed.
#ifndef SATCHEL_SHARES_FUSE_TABLES_H_
#define SATCHEL_SHARES_FUSE_TABLES_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chunkstore/core/os/mutex.h"
#include "shares/fuse/policy.h"
#include "shares/fuse/window.h"

namespace satchel {

// Windows of handles. A handle's number says its file and its flags, so several opens may have the
// same one.
class OpenFiles {
 public:
  void Add(uint64_t number, std::shared_ptr<Window> window) EXCLUDES(mutex_) {
    if (window == nullptr) return;
    const AloneLock lock(&mutex_);
    Open& open = windows_[number];
    open.window = std::move(window);
    ++open.count;
  }

  std::shared_ptr<Window> Find(uint64_t number) EXCLUDES(mutex_) {
    const SharedLock lock(&mutex_);
    const auto found = windows_.find(number);
    return found == windows_.end() ? nullptr : found->second.window;
  }

  void Remove(uint64_t number) EXCLUDES(mutex_) {
    const AloneLock lock(&mutex_);
    const auto found = windows_.find(number);
    if (found != windows_.end() && --found->second.count == 0) windows_.erase(found);
  }

 private:
  struct Open {
    std::shared_ptr<Window> window;
    uint64_t count = 0;
  };

  SharedMutex mutex_;
  std::unordered_map<uint64_t, Open> windows_ GUARDED_BY(mutex_);
};

// The names in a folder, as they were when it was last read from its beginning.
struct Listing {
  Mutex mutex;
  bool read GUARDED_BY(mutex) = false;
  std::vector<Item> items GUARDED_BY(mutex);
};

class OpenFolders {
 public:
  static constexpr size_t kMost = 65536;

  OpenFolders();

  // A number that no other session gives, or 0 where too many are open.
  uint64_t Add() EXCLUDES(mutex_) {
    const MutexLock lock(&mutex_);
    if (listings_.size() >= kMost) return 0;
    listings_[++last_] = std::make_shared<Listing>();
    return last_;
  }

  // One that another session gave is new here; nullptr where too many are open.
  std::shared_ptr<Listing> Find(uint64_t number) EXCLUDES(mutex_) {
    const MutexLock lock(&mutex_);
    const auto found = listings_.find(number);
    if (found != listings_.end()) return found->second;
    if (listings_.size() >= kMost) return nullptr;
    return listings_[number] = std::make_shared<Listing>();
  }

  void Remove(uint64_t number) EXCLUDES(mutex_) {
    const MutexLock lock(&mutex_);
    listings_.erase(number);
  }

 private:
  Mutex mutex_;
  uint64_t last_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::shared_ptr<Listing>> listings_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_TABLES_H_
