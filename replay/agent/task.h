// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// One piece of work in a child process, its output collected: the run, digest and sync requests.
#ifndef SATCHEL_REPLAY_AGENT_TASK_H_
#define SATCHEL_REPLAY_AGENT_TASK_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "replay/agent/sys.h"

namespace satchel {

class Task {
 public:
  // Output beyond this is read and dropped.
  static constexpr size_t kMaxOutput = 4u << 20;

  struct Result {
    int exit_code = 0;  // 128 + signal if a signal ended it
    bool timed_out = false;
    std::string output;
  };

  bool busy() const { return pid_ > 0; }

  // Runs `work` in a child, whose standard output and error are collected; what it returns is the
  // exit code. False: no child could be made, errno says why.
  bool Start(const std::function<int()>& work, Millis timeout);

  // A child was reaped; true if it was this one.
  bool Reaped(pid_t pid, int wait_status);

  // Collects output, enforces the deadline; a result once the child was reaped.
  std::optional<Result> Step();

  int fd() const { return output_.get(); }
  Millis wake_time() const { return busy() && !result_.timed_out ? deadline_ : kNever; }

 private:
  void Collect();

  pid_t pid_ = -1;
  bool reaped_ = false;
  Fd output_;
  Millis deadline_ = 0;
  Result result_;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_TASK_H_
