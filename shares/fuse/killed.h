// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests of a mount whose programs are being killed. The kernel lets such a program end only when
// its request is answered, and that may wait for home. So the request gets EINTR, whatever it waits
// for, and the real reply goes nowhere. Other signals end no request: programs do not expect that
// of files.
#ifndef SATCHEL_SHARES_FUSE_KILLED_H_
#define SATCHEL_SHARES_FUSE_KILLED_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "chunkstore/core/os/mutex.h"

namespace satchel {

class KilledPrograms {
 public:
  // A message that was read from /dev/fuse, before anything is done about it.
  void Received(const void* message, size_t size) EXCLUDES(mutex_);

  // A reply is about to be written. False if its request has been answered.
  bool Replies(const iovec* parts, int count) EXCLUDES(mutex_);

  // Answers the requests of programs that are being killed. Called at short intervals.
  void Answer(int device) EXCLUDES(mutex_);

 private:
  struct Request {
    uint32_t thread = 0;
    bool interrupted = false;
    bool answered = false;
  };

  static constexpr size_t kMostEarly = 64;

  std::vector<uint64_t> Killed() EXCLUDES(mutex_);

  Mutex mutex_;
  std::unordered_map<uint64_t, Request> requests_ GUARDED_BY(mutex_);
  // Interrupts that another thread has read before the requests that they are about came here.
  std::unordered_set<uint64_t> early_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_KILLED_H_
