// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "volumes/plugin/reclaimer.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace satchel {
namespace {

// Between two looks at the map. Nobody waits for the space.
constexpr auto kLookEvery = std::chrono::milliseconds(250);

}  // namespace

Reclaimer::~Reclaimer() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stop_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

Status Reclaimer::Start() {
  try {
    thread_ = std::thread([this] { Work(); });
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread", error.code().value());
  }
  return {};
}

// What was asked for before there was somebody to do it is done first: the map may be older than
// this process. A failure costs space only, and the next request tries again.
void Reclaimer::Work() {
  uint32_t done = 0;
  while (WaitForRequest(done)) {
    done = map_->SpaceRequests();
    (void)Reclaim();
  }
}

// false when it is time to end.
bool Reclaimer::WaitForRequest(uint32_t done) {
  const MutexLock lock(&mutex_);
  while (!stopping_ && map_->SpaceRequests() == done) {
    (void)stop_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kLookEvery);
  }
  return !stopping_;
}

bool Reclaimer::stopping() {
  const MutexLock lock(&mutex_);
  return stopping_;
}

Status Reclaimer::Reclaim() {
  uint64_t block = 0;
  while (block < map_->blocks()) {
    uint64_t begin = 0;
    uint64_t end = 0;
    SATCHEL_RETURN_IF_ERROR(overlay_->NextData(block * kBlockSize, &begin, &end));
    if (begin >= end) return {};
    block = begin / kBlockSize;
    const uint64_t stop = std::min((end + kBlockSize - 1) / kBlockSize, map_->blocks());
    while (block < stop) {
      if (stopping()) return {};
      const uint64_t next = std::min(stop, Stripes::EndOf(block));
      SATCHEL_RETURN_IF_ERROR(ReclaimStripe(block, next));
      block = next;
    }
  }
  return {};
}

// Of blocks of one stripe.
Status Reclaimer::ReclaimStripe(uint64_t begin, uint64_t end) {
  SharedMutex* const stripe = stripes_->Of(begin);
  const AloneLock alone(stripe);
  while (begin < end) {
    uint64_t stop = begin;
    while (stop < end && map_->Load(stop).state != BlockState::kDirty) ++stop;
    if (stop > begin) SATCHEL_RETURN_IF_ERROR(PunchOut(stripe, begin, stop));
    begin = stop + 1;
  }
  return {};
}

// Blocks that are not dirty, which nobody can make dirty before the stripe is given up.
Status Reclaimer::PunchOut(SharedMutex*, uint64_t begin, uint64_t end) {
  return overlay_->PunchHole(begin * kBlockSize, (end - begin) * kBlockSize);
}

}  // namespace satchel
