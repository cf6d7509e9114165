// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Programs that wait for a lock. Each waits on a thread of its own and asks again and again, at
// growing intervals: a call into Python that waited could not be ended when the program is
// interrupted, and a lock that came after that would have to be undone.
#ifndef SATCHEL_SHARES_FUSE_LOCKS_H_
#define SATCHEL_SHARES_FUSE_LOCKS_H_

#include <fuse3/fuse_lowlevel.h>

#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "chunkstore/core/os/mutex.h"

namespace satchel {

class LockWaiters {
 public:
  static constexpr size_t kMost = 1024;

  // Answers `request` with what `ask` returns, an errno, once that is not EAGAIN; with EINTR when
  // the request is interrupted; with ENOLCK where too many wait.
  void Wait(fuse_req_t request, std::function<int()> ask) EXCLUDES(mutex_);

  // Ends all waiting.
  void Stop() EXCLUDES(mutex_);

 private:
  struct Waiter {
    LockWaiters* all = nullptr;
    fuse_req_t request = nullptr;
    std::function<int()> ask;
    std::thread thread;
    bool interrupted = false;
    bool done = false;
  };

  static void Interrupted(fuse_req_t request, void* waiter);
  void WaitOn(Waiter* waiter) EXCLUDES(mutex_);
  void JoinDone() EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::list<std::unique_ptr<Waiter>> waiters_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_LOCKS_H_
