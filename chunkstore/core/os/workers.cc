// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/os/workers.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace satchel {
namespace {

constexpr auto kReportEvery = std::chrono::milliseconds(100);

// Those that this process may use. The standard library counts the machine's.
unsigned Processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {  // more than the set has room for
    return std::thread::hardware_concurrency();
  }
  return static_cast<unsigned>(CPU_COUNT(&allowed));
}

}  // namespace

Status Workers::Run(const std::function<Status()>& body, const ProgressFn& progress) {
  if (inline_ && !progress) return body();
  std::vector<std::thread> threads;
  if (Status status = Start(body, &threads); !status.ok()) Fail(std::move(status));
  Wait(progress);
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(&mutex_);
  return status_;
}

// Until all bodies have returned. Asks `progress` at least once: many short operations can be
// stopped, too.
void Workers::Wait(const ProgressFn& progress) {
  for (bool running = true; running;) {
    {
      const MutexLock lock(&mutex_);
      const auto until = std::chrono::steady_clock::now() + kReportEvery;
      while (running_ > 0 && changed_.WaitUntil(&mutex_, until)) {
      }
      running = running_ > 0;
    }
    if (!progress || stopped_ || progress(done_, std::max(total_, done_.load()))) continue;
    Fail(Status::Make(Kind::kCancelled, "stopped by the caller"));
  }
}

Status Workers::Start(const std::function<Status()>& body, std::vector<std::thread>* threads) {
  const unsigned count = std::clamp(share_ * Processors(), 1u, 8u);
  threads->reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    const MutexLock lock(&mutex_);
    try {
      threads->emplace_back([this, &body] { Work(body); });
    } catch (const std::system_error& error) {
      if (i > 0) return {};  // slower, not impossible
      return Status::FromErrno("cannot start a thread", error.code().value());
    }
    ++running_;
  }
  return {};
}

void Workers::Work(const std::function<Status()>& body) {
  Status status = body();
  if (!status.ok()) Fail(std::move(status));
  const MutexLock lock(&mutex_);
  --running_;
  changed_.NotifyAll();
}

bool Workers::WaitForRoom(uint64_t ticket) {
  const MutexLock lock(&mutex_);
  while (ticket >= turn_ + kRoom && !stopped_) changed_.Wait(&mutex_);
  return !stopped_;
}

Status Workers::InOrder(uint64_t ticket, std::function<Status()> act) {
  const MutexLock lock(&mutex_);
  queued_.emplace(ticket, std::move(act));
  if (acting_) return {};
  acting_ = true;
  Status status;
  while (status.ok() && !stopped_ && !queued_.empty() && queued_.begin()->first == turn_) {
    const std::function<Status()> next = std::move(queued_.begin()->second);
    queued_.erase(queued_.begin());
    mutex_.Unlock();
    status = next();
    mutex_.Lock();
    ++turn_;
    changed_.NotifyAll();
  }
  acting_ = !status.ok();  // nobody goes on behind an error
  return status;           // Run stops the others
}

void Workers::Fail(Status status) {
  const MutexLock lock(&mutex_);
  if (status_.ok()) status_ = std::move(status);
  stopped_ = true;
  changed_.NotifyAll();
}

}  // namespace satchel
