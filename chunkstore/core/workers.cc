// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/workers.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace satchel {

Status Workers::Run(const std::function<Status()>& body, const ProgressFn& progress) {
  std::vector<std::thread> threads;
  if (Status status = Start(body, &threads); !status.ok()) Fail(std::move(status));
  std::unique_lock lock(mutex_);
  while (running_ > 0) {
    changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return running_ == 0; });
    if (!progress || stopped_) continue;
    lock.unlock();
    if (!progress(done_, std::max(total_, done_.load()))) {
      Fail(Status::Make(Kind::kCancelled, "stopped by the caller"));
    }
    lock.lock();
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  return status_;
}

Status Workers::Start(const std::function<Status()>& body, std::vector<std::thread>* threads) {
  const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  threads->reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  --running_;
  changed_.notify_all();
}

bool Workers::WaitForRoom(uint64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ticket < turn_ + kRoom || stopped_; });
  return !stopped_;
}

Status Workers::InOrder(uint64_t ticket, std::function<Status()> act) {
  std::unique_lock lock(mutex_);
  queued_.emplace(ticket, std::move(act));
  if (acting_) return {};
  acting_ = true;
  Status status;
  while (status.ok() && !stopped_ && !queued_.empty() && queued_.begin()->first == turn_) {
    const std::function<Status()> next = std::move(queued_.begin()->second);
    queued_.erase(queued_.begin());
    lock.unlock();
    status = next();
    lock.lock();
    ++turn_;
    changed_.notify_all();
  }
  acting_ = !status.ok();  // nobody goes on behind an error
  return status;           // Run stops the others
}

void Workers::Fail(Status status) {
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace satchel
