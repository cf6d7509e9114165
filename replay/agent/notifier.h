// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Time and randomness of the operation under way, for programs that call the kernel themselves
// (static ones, Go) and so cannot be preloaded into. The kernel asks the agent what it is to answer
// (seccomp's user notification, seccomp_unotify(2)). `stands` has the words of preload.cc:
//
//   time        clock_gettime, gettimeofday and time of the wall clock
//   monotonic   clock_gettime of the monotonic clocks
//   randomness  getrandom; open of /dev/urandom and /dev/random, and read of what that gave
//
// The guest's kernel must give programs no vDSO (vdso=0), in which they find the time without
// asking. Before the first operation everything is as the machine has it.
//
// All processes of a service draw from one stream: who gets which part of it is told by their
// order. Not covered: what the kernel gives a program with its start (AT_RANDOM), 32-bit programs,
// descriptors of /dev/urandom that are duplicated, mapped, or waited for by io_uring, time stamps
// of files, and the processor's own counter (rdtsc).
#ifndef SATCHEL_REPLAY_AGENT_NOTIFIER_H_
#define SATCHEL_REPLAY_AGENT_NOTIFIER_H_

#include <string>

#include "replay/agent/sys.h"

namespace satchel {

class Notifier {
 public:
  // moment: the path of the moment's file. Empty words: nobody is asked.
  Notifier(const std::string& stands, const std::string& moment);

  bool wanted() const { return time_ || monotonic_ || randomness_; }

  // In a child, before exec and while it still has the agent's rights: from here on it is asked
  // for. `agent` is a socket whose other end Answer() gets. False: errno says why.
  bool Enter(const Fd& agent) const;

  // In the agent: answers that child and all its children, in a thread of its own, as long as there
  // are any.
  void Answer(Fd child) const;

 private:
  bool time_;
  bool monotonic_;
  bool randomness_;
  std::string moment_;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_NOTIFIER_H_
