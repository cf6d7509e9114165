// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

#include "shares/fuse/session.h"

namespace satchel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause(1);
constexpr milliseconds kLongestPause(100);

struct Range {
  int64_t start;
  int64_t end;
};

Range RangeOf(const struct flock& lock) {
  const bool to_the_end = lock.l_len == 0;
  return {lock.l_start, to_the_end ? INT64_MAX : lock.l_start + lock.l_len - 1};
}

void GetLock(fuse_req_t request, fuse_ino_t, fuse_file_info* info, struct flock* lock) {
  Session* const session = Session::Of(request);
  struct flock found = {};
  found.l_type = F_UNLCK;
  const int error = session->policy().Ask("get_lock", [&](const py::object& operations) {
    const Range range = RangeOf(*lock);
    const py::object other =
        operations.attr("get_lock")(info->fh, info->lock_owner, range.start, range.end,
                                    session->policy().LockKind(lock->l_type));
    if (other.is_none()) return;
    const py::tuple parts = other;
    const auto end = py::cast<int64_t>(parts[1]);
    found.l_start = py::cast<int64_t>(parts[0]);
    found.l_len = end == INT64_MAX ? 0 : end - found.l_start + 1;
    found.l_type =
        py::object(parts[2]).equal(session->policy().LockKind(F_RDLCK)) ? F_RDLCK : F_WRLCK;
    found.l_pid = py::cast<pid_t>(parts[3]);
  });
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_lock(request, &found);
  }
}

// Asks once, and waits if that did not do and the program wants to.
template <typename Ask>
void Try(fuse_req_t request, bool wait, const Ask& ask) {
  const int error = ask();
  if (error == EAGAIN && wait) {
    Session::Of(request)->locks().Wait(request, ask);
  } else {
    fuse_reply_err(request, error);
  }
}

void SetLock(fuse_req_t request, fuse_ino_t, fuse_file_info* info, struct flock* lock, int wait) {
  Session* const session = Session::Of(request);
  const auto ask = [session, range = RangeOf(*lock), type = lock->l_type, pid = lock->l_pid,
                    handle = info->fh, owner = info->lock_owner] {
    return session->policy().Ask("set_lock", [&](const py::object& operations) {
      operations.attr("set_lock")(handle, owner, range.start, range.end,
                                  session->policy().LockKind(type), pid, false);
    });
  };
  Try(request, wait != 0, ask);
}

void FileLock(fuse_req_t request, fuse_ino_t, fuse_file_info* info, int how) {
  Session* const session = Session::Of(request);
  const int type = (how & LOCK_UN) != 0 ? F_UNLCK : (how & LOCK_EX) != 0 ? F_WRLCK : F_RDLCK;
  const auto ask = [session, type, handle = info->fh, owner = info->lock_owner] {
    return session->policy().Ask("set_file_lock", [&](const py::object& operations) {
      operations.attr("set_file_lock")(handle, owner, session->policy().LockKind(type), false);
    });
  };
  Try(request, (how & LOCK_NB) == 0, ask);
}

}  // namespace

void LockWaiters::Interrupted(fuse_req_t, void* waiter) {
  auto* const self = static_cast<Waiter*>(waiter);
  const MutexLock lock(&self->all->mutex_);
  self->interrupted = true;
  self->all->changed_.NotifyAll();
}

void LockWaiters::Wait(fuse_req_t request, std::function<int()> ask) {
  JoinDone();
  auto waiter = std::make_unique<Waiter>();
  Waiter* const self = waiter.get();
  self->all = this;
  self->request = request;
  self->ask = std::move(ask);
  {
    const MutexLock lock(&mutex_);
    if (!stopping_ && waiters_.size() < kMost) {
      waiters_.push_back(std::move(waiter));
      self->thread = std::thread([this, self] { WaitOn(self); });
      return;
    }
  }
  fuse_reply_err(request, ENOLCK);
}

void LockWaiters::WaitOn(Waiter* waiter) {
  const Attached attached;
  fuse_req_interrupt_func(waiter->request, &Interrupted, waiter);
  milliseconds pause = kFirstPause;
  int error = EAGAIN;
  for (;;) {
    {
      const MutexLock lock(&mutex_);
      const auto until = std::chrono::steady_clock::now() + pause;
      while (!waiter->interrupted && !stopping_ && changed_.WaitUntil(&mutex_, until)) {
      }
      if (waiter->interrupted || stopping_) error = EINTR;
    }
    if (error == EAGAIN) error = waiter->ask();
    if (error != EAGAIN) break;
    pause = std::min(pause * 2, kLongestPause);
  }
  // Afterwards nobody calls Interrupted for it.
  fuse_req_interrupt_func(waiter->request, nullptr, nullptr);
  fuse_reply_err(waiter->request, error);
  const MutexLock lock(&mutex_);
  waiter->done = true;
  changed_.NotifyAll();
}

void LockWaiters::JoinDone() {
  std::list<std::unique_ptr<Waiter>> done;
  {
    const MutexLock lock(&mutex_);
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      const auto next = std::next(it);
      if ((*it)->done) done.splice(done.end(), waiters_, it);
      it = next;
    }
  }
  for (const auto& waiter : done) waiter->thread.join();
}

void LockWaiters::Stop() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    for (;;) {
      const bool all = std::all_of(waiters_.begin(), waiters_.end(),
                                   [](const auto& waiter) { return waiter->done; });
      if (all) break;
      changed_.Wait(&mutex_);
    }
  }
  JoinDone();
}

void AddLockCalls(fuse_lowlevel_ops* calls) {
  calls->getlk = &GetLock;
  calls->setlk = &SetLock;
  calls->flock = &FileLock;
}

}  // namespace satchel
