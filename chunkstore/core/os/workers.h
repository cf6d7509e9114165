// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A few threads for one long operation, with progress on the caller's thread.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_WORKERS_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

// Called from the thread that called the operation, about ten times a second and at the end.
// done and total are bytes. false stops the operation with kCancelled.
using ProgressFn = std::function<bool(uint64_t done, uint64_t total)>;

// The state that the threads of one operation share. The first error wins and stops all.
class Workers {
 public:
  // `total`: bytes that there are to do. `share`: threads for each processor.
  explicit Workers(uint64_t total, unsigned share = 1) : total_(total), share_(share) {}

  // Runs `body` on threads for each processor that it may use, eight at most, until all have
  // returned, and calls `progress` (may be empty) meanwhile. Returns the first error.
  Status Run(const std::function<Status()>& body, const ProgressFn& progress);

  // From now on an operation of this process without progress has one thread, its caller's: its
  // calls to the system come in one order, and nothing waits for a thread to wake up. For tests.
  static void Inline(bool on) { inline_ = on; }
  static bool inlined() { return inline_; }

  // For bodies: whether to give up, and what was done.
  bool stopped() const { return stopped_; }
  void Done(uint64_t bytes) { done_ += bytes; }

  // For bodies: waits until few enough tickets before `ticket` are open, so that what is queued
  // stays little. false after an error anywhere.
  bool WaitForRoom(uint64_t ticket);

  // For bodies: has `act` called once, after those of all tickets before `ticket` (0, 1, 2 ...) and
  // never beside another: now, or by the body that queues the one that is missing. After an error
  // anywhere it may not be called.
  Status InOrder(uint64_t ticket, std::function<Status()> act);

 private:
  Status Start(const std::function<Status()>& body, std::vector<std::thread>* threads);
  void Wait(const ProgressFn& progress);
  void Work(const std::function<Status()>& body);
  void Fail(Status status) EXCLUDES(mutex_);

  static constexpr uint64_t kRoom = 4;
  static inline std::atomic<bool> inline_{false};

  const uint64_t total_;
  const unsigned share_;
  std::atomic<uint64_t> done_{0};
  std::atomic<bool> stopped_{false};

  Mutex mutex_;
  CondVar changed_;
  uint64_t turn_ GUARDED_BY(mutex_) = 0;
  bool acting_ GUARDED_BY(mutex_) = false;
  std::map<uint64_t, std::function<Status()>> queued_ GUARDED_BY(mutex_);  // from turn_ on
  unsigned running_ GUARDED_BY(mutex_) = 0;
  Status status_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_WORKERS_H_
