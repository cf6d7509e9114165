// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A clock that moves from operation to operation, for a program that it is preloaded into
// (LD_PRELOAD). Its monotonic clocks stand at the number of nanoseconds that the first eight bytes
// of the file SATCHEL_CLOCK say, in the byte order of the machine; while these are 0, or there is
// no such file, they run as they do. The file is mapped at the first question and must be there
// then.
//
// An X server takes the time stamps of its events from there: whether two clicks are a double click
// is then told by the operations' times, and not by how fast a replica executes them. Timers on
// that clock do not come due while it stands; those on the time of day do.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kRuns = 0;

const volatile uint64_t* Mapped() {
  const char* path = getenv("SATCHEL_CLOCK");
  const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return &kRuns;
  void* map = mmap(nullptr, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return map == MAP_FAILED ? &kRuns : static_cast<const volatile uint64_t*>(map);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const volatile uint64_t* const moment = Mapped();
  const uint64_t now = *moment;
  const bool monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
  if (!monotonic || now == 0) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  time->tv_sec = static_cast<time_t>(now / kSecond);
  time->tv_nsec = static_cast<long>(now % kSecond);
  return 0;
}
