// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/killed.h"

#include <errno.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

namespace satchel {
namespace {

// Whether a signal that ends the thread is pending.
bool IsKilled(uint32_t thread) {
  constexpr char kPending[] = "SigPnd:";
  std::ifstream status("/proc/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, sizeof(kPending) - 1, kPending) != 0) continue;
    const uint64_t pending = strtoull(line.c_str() + sizeof(kPending) - 1, nullptr, 16);
    return (pending & (uint64_t{1} << (SIGKILL - 1))) != 0;
  }
  return false;
}

bool HasReply(uint32_t opcode) { return opcode != FUSE_FORGET && opcode != FUSE_BATCH_FORGET; }

}  // namespace

void KilledPrograms::Received(const void* message, size_t size) {
  fuse_in_header head;
  if (size < sizeof(head)) return;
  memcpy(&head, message, sizeof(head));
  const MutexLock lock(&mutex_);
  if (head.opcode != FUSE_INTERRUPT) {
    if (!HasReply(head.opcode)) return;
    requests_[head.unique] = {head.pid, early_.erase(head.unique) > 0, false};
    return;
  }
  fuse_interrupt_in in;
  if (size < sizeof(head) + sizeof(in)) return;
  memcpy(&in, static_cast<const char*>(message) + sizeof(head), sizeof(in));
  const auto found = requests_.find(in.unique);
  if (found != requests_.end()) {
    found->second.interrupted = true;
  } else if (early_.size() < kMostEarly) {
    early_.insert(in.unique);
  }
}

bool KilledPrograms::Replies(const iovec* parts, int count) {
  fuse_out_header head;
  if (count < 1 || parts[0].iov_len < sizeof(head)) return true;
  memcpy(&head, parts[0].iov_base, sizeof(head));
  const MutexLock lock(&mutex_);
  early_.erase(head.unique);
  const auto found = requests_.find(head.unique);
  if (found == requests_.end()) return true;
  const bool answered = found->second.answered;
  requests_.erase(found);
  return !answered;
}

std::vector<uint64_t> KilledPrograms::Killed() {
  std::vector<uint64_t> killed;
  const MutexLock lock(&mutex_);
  for (auto& [unique, request] : requests_) {
    if (!request.interrupted || request.answered || !IsKilled(request.thread)) continue;
    request.answered = true;
    killed.push_back(unique);
  }
  return killed;
}

void KilledPrograms::Answer(int device) {
  for (const uint64_t unique : Killed()) {
    const fuse_out_header head = {sizeof(head), -EINTR, unique};
    const ssize_t written = write(device, &head, sizeof(head));
    (void)written;  // the kernel may have ended the request meanwhile
  }
}

}  // namespace satchel
