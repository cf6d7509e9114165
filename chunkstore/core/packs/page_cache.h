// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The table pages that were read last, decoded. A walk over a volume reads every leaf page once
// and every inner page many times.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACKS_PAGE_CACHE_H_
#define SATCHEL_CHUNKSTORE_CORE_PACKS_PAGE_CACHE_H_

#include <cstring>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "chunkstore/core/format/table.h"
#include "chunkstore/core/os/mutex.h"

namespace satchel {

// Thread-safe. Least recently used pages go first.
class PageCache {
 public:
  // Null if it is not there as a page of `level`.
  std::shared_ptr<const Page> Find(const ChunkRef& ref, unsigned level) {
    const MutexLock lock(&mutex_);
    const auto found = places_.find(ref);
    if (found == places_.end() || found->second->level != level) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->page;
  }

  void Insert(const ChunkRef& ref, unsigned level, std::shared_ptr<const Page> page) {
    const MutexLock lock(&mutex_);
    if (places_.count(ref) != 0) return;
    order_.push_front(Entry{ref, level, std::move(page)});
    places_[ref] = order_.begin();
    if (order_.size() <= kCapacity) return;
    places_.erase(order_.back().ref);
    order_.pop_back();
  }

  void Clear() {
    const MutexLock lock(&mutex_);
    places_.clear();
    order_.clear();
  }

 private:
  static constexpr size_t kCapacity = 1024;  // pages of 3.3 KB

  struct Entry {
    ChunkRef ref;
    unsigned level;
    std::shared_ptr<const Page> page;
  };

  struct Hash {
    size_t operator()(const ChunkRef& ref) const {
      size_t word;
      std::memcpy(&word, ref.digest(), sizeof word);
      return word;
    }
  };

  Mutex mutex_;
  std::list<Entry> order_ GUARDED_BY(mutex_);
  std::unordered_map<ChunkRef, std::list<Entry>::iterator, Hash> places_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACKS_PAGE_CACHE_H_
