// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The few system matters that every module of the agent needs: owned descriptors, monotonic time,
// the log on the console.
#ifndef SATCHEL_REPLAY_AGENT_SYS_H_
#define SATCHEL_REPLAY_AGENT_SYS_H_

#include <cstdint>
#include <initializer_list>
#include <string>

namespace satchel {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd() { Close(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void Close();

 private:
  int Release();
  int fd_ = -1;
};

// Milliseconds of CLOCK_MONOTONIC: deadlines must not move when an operation sets the clock.
using Millis = int64_t;
inline constexpr Millis kNever = INT64_MAX;
Millis Now();

// One line on standard error, which is the guest's console.
void Say(const char* format, ...) __attribute__((format(printf, 1, 2)));

// "what: strerror(errno)"
std::string ErrnoText(const char* what);

// The whole of a small file, or "" if it cannot be read. For /proc, /sys and /etc.
std::string ReadSmallFile(const char* path);

// Has modprobe load kernel modules; where it cannot, nothing happens.
void LoadModules(std::initializer_list<const char*> names);

// Lets this process and its children have as many files open as the runtimes of containers do.
void RaiseFileLimit();

// In a child before exec: default signal handling, nothing blocked, own session.
void ResetChild();

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_SYS_H_
