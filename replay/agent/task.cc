// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/task.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace satchel {

bool Task::Start(const std::function<int()>& work, Millis timeout) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return false;
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  pid_ = fork();
  if (pid_ == 0) {
    ResetChild();
    fcntl(write_end.get(), F_SETFL, 0);  // the child may block on its output
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0) dup2(null, STDIN_FILENO);
    dup2(write_end.get(), STDOUT_FILENO);
    dup2(write_end.get(), STDERR_FILENO);
    _exit(work());
  }
  if (pid_ < 0) return false;
  reaped_ = false;
  output_ = std::move(read_end);
  deadline_ = Now() + timeout;
  result_ = Result{};
  return true;
}

bool Task::Reaped(pid_t pid, int wait_status) {
  if (pid != pid_) return false;
  reaped_ = true;
  result_.exit_code =
      WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
  return true;
}

void Task::Collect() {
  char buffer[16u << 10];
  while (output_.valid()) {
    const ssize_t count = read(output_.get(), buffer, sizeof(buffer));
    if (count < 0) return;
    if (count == 0) {
      output_.Close();
      return;
    }
    const size_t room = kMaxOutput - result_.output.size();
    result_.output.append(buffer, std::min(room, static_cast<size_t>(count)));
  }
}

std::optional<Task::Result> Task::Step() {
  if (!busy()) return std::nullopt;
  Collect();
  if (reaped_) {
    pid_ = -1;
    output_.Close();
    return std::exchange(result_, Result{});
  }
  if (Now() >= deadline_ && !result_.timed_out) {
    result_.timed_out = true;
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
  }
  return std::nullopt;
}

}  // namespace satchel
