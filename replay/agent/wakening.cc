// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/wakening.h"

#include <fcntl.h>
#include <linux/random.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "replay/agent/sys.h"

namespace satchel {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
// A clock that is off by less stays: programs do not like one that jumps.
constexpr uint64_t kClose = kSecond / 20;
constexpr size_t kMostEntropy = 64;

bool SetClock(uint64_t time_ns) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const uint64_t have = static_cast<uint64_t>(now.tv_sec) * kSecond + now.tv_nsec;
  const uint64_t off = have > time_ns ? have - time_ns : time_ns - have;
  if (off < kClose) return true;
  const timespec wanted{static_cast<time_t>(time_ns / kSecond),
                        static_cast<long>(time_ns % kSecond)};
  return clock_settime(CLOCK_REALTIME, &wanted) == 0;
}

bool Reseed(std::string_view entropy) {
  const size_t count = std::min(entropy.size(), kMostEntropy);
  alignas(rand_pool_info) char given[sizeof(rand_pool_info) + kMostEntropy] = {};
  const rand_pool_info info{static_cast<int>(count * 8), static_cast<int>(count)};
  memcpy(given, &info, sizeof(info));
  memcpy(given + sizeof(info), entropy.data(), count);
  const Fd device(open("/dev/urandom", O_RDWR | O_CLOEXEC));
  return device.valid() && ioctl(device.get(), RNDADDENTROPY, given) == 0 &&
         ioctl(device.get(), RNDRESEEDCRNG) == 0;
}

}  // namespace

bool Waken(uint64_t time_ns, std::string_view entropy, std::string* error) {
  if (!entropy.empty() && !Reseed(entropy)) {
    *error = ErrnoText("cannot reseed the kernel's randomness");
    return false;
  }
  if (SetClock(time_ns)) return true;
  *error = ErrnoText("cannot set the clock");
  return false;
}

void ComeFirst() {
  const sched_param least{sched_get_priority_min(SCHED_FIFO)};
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &least) != 0 ||
      mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
    Say("cannot come before other programs: %s", strerror(errno));
  }
}

}  // namespace satchel
