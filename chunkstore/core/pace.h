// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What is the slower while much is stored: to compress it, or to write what compressing would save.
//
// A thread either makes records or waits for them to be written. How long a byte takes it either
// way is measured while it works, the other threads and whatever else the machine does included.
// With nothing else to do two threads compress at level 1 where the disk takes less than 450 MB/s,
// and eight where it takes less than 1.8 GB/s. Raw records are the better ones as long as they are
// new (docs/chunkstore.md), and settling compresses what is left of them.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACE_H_
#define SATCHEL_CHUNKSTORE_CORE_PACE_H_

#include <chrono>
#include <cstdint>

#include "chunkstore/core/mutex.h"

namespace satchel {

// Thread-safe.
class Pace {
 public:
  using Time = std::chrono::nanoseconds;

  // A thread waited so long for as many bytes of records to be written.
  void Wrote(uint64_t bytes, Time waited) {
    const MutexLock lock(&mutex_);
    written_ += static_cast<double>(bytes);
    waited_ns_ += static_cast<double>(waited.count());
    if (written_ < kSample) return;
    const double saved = 1 - made_ / content_;
    disk_is_slower_ = waited_ns_ / written_ * saved > compress_ns_ / content_;
    written_ /= 2;
    waited_ns_ /= 2;
  }

  // It compressed as much content to `bytes` of records.
  void Compressed(uint64_t content, uint64_t bytes, Time took) {
    const MutexLock lock(&mutex_);
    content_ += static_cast<double>(content);
    made_ += static_cast<double>(bytes);
    compress_ns_ += static_cast<double>(took.count());
    if (content_ < 2 * kSample) return;
    content_ /= 2;
    made_ /= 2;
    compress_ns_ /= 2;
  }

  // By the last bytes; false before there were kSample of them.
  bool disk_is_slower() const {
    const MutexLock lock(&mutex_);
    return disk_is_slower_;
  }

  static constexpr double kSample = 16 << 20;

 private:
  mutable Mutex mutex_;
  double written_ GUARDED_BY(mutex_) = 0;
  double waited_ns_ GUARDED_BY(mutex_) = 0;
  // Until it is known: level 1 on one processor.
  double content_ GUARDED_BY(mutex_) = kSample / 4;
  double made_ GUARDED_BY(mutex_) = kSample / 4 * 0.4;
  double compress_ns_ GUARDED_BY(mutex_) = kSample / 4 * 2.7;
  bool disk_is_slower_ GUARDED_BY(mutex_) = false;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACE_H_
