// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace satchel {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

void Fd::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

int Fd::Release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

Millis Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Millis>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

void Say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char line[512];
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "satchel-agent: %s\n", line);
}

std::string ErrnoText(const char* what) { return std::string(what) + ": " + strerror(errno); }

std::string ReadSmallFile(const char* path) {
  constexpr size_t kLimit = 4u << 20;
  Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd.valid() && text.size() < kLimit) {
    const ssize_t got = read(fd.get(), buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

void LoadModules(std::initializer_list<const char*> names) {
  std::vector<char*> argv = {const_cast<char*>("modprobe"), const_cast<char*>("-a")};
  for (const char* name : names) argv.push_back(const_cast<char*>(name));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    ResetChild();
    execv("/sbin/modprobe", argv.data());
    _exit(127);
  }
  if (pid > 0) waitpid(pid, nullptr, 0);
}

void RaiseFileLimit() {
  constexpr rlim_t kOpenFiles = 65'536;
  constexpr rlim_t kMost = 524'288;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlimit wanted{std::max(limit.rlim_cur, kOpenFiles), std::max(limit.rlim_max, kMost)};
  if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kOpenFiles));
  setrlimit(RLIMIT_NOFILE, &limit);
}

void ResetChild() {
  setsid();
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace satchel
