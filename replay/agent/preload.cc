// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Time and randomness of the operation under way, for a program that this is preloaded into
// (LD_PRELOAD) and that would otherwise ask the machine. SATCHEL_MOMENT is the path of the moment's
// file (moment.h), SATCHEL_STANDS says in words what comes from there:
//
//   time        the wall clock stands at the operation's time
//   monotonic   the monotonic clocks stand. They go forward with the operations' times, and stay
//               where those go back. Their timers do not come due: for programs that show them
//   randomness  getrandom, getentropy and arc4random give what follows from seed and number of the
//               operation alone: ChaCha20, from its beginning with each operation, in each process
//
// Before the first operation, and without that file, everything is as the machine has it. What a
// program gets before the first operation is in its memory, and so the same in all replicas of a
// checkpoint.
//
// Not covered: programs that call the kernel themselves (static ones, Go) and /dev/urandom, for
// which there is notifier.h; time stamps of files, which are the kernel's. Threads that draw at
// once share what comes: who gets which part is told by their order. A child draws what its parent
// draws. The wall clock stands while a program waits for it to pass without sleeping: it waits for
// ever.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "replay/agent/chacha.h"
#include "replay/agent/moment.h"

namespace {

using satchel::Moment;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kBlock = satchel::kChachaBlock;
constexpr int kCountBits = 40;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr size_t kMaxEntropy = 256;  // getentropy(3)

const Moment kNone{};

struct Setting {
  const volatile Moment* moment = &kNone;
  bool time = false;
  bool monotonic = false;
  bool randomness = false;
};

Setting Read() {
  Setting setting;
  const char* path = getenv("SATCHEL_MOMENT");
  const char* words = getenv("SATCHEL_STANDS");
  if (path == nullptr || words == nullptr) return setting;
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return setting;
  void* map = mmap(nullptr, sizeof(Moment), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return setting;
  setting.moment = static_cast<const volatile Moment*>(map);
  setting.time = strstr(words, "time") != nullptr;
  setting.monotonic = strstr(words, "monotonic") != nullptr;
  setting.randomness = strstr(words, "randomness") != nullptr;
  return setting;
}

// Two threads that ask first at once map the file twice, which costs a page.
const Setting& Settings() {
  static const Setting setting = Read();
  return setting;
}

// The time at which a clock stands, or 0 where it runs.
uint64_t StandsAt(clockid_t clock) {
  const Setting& setting = Settings();
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
      return setting.time ? setting.moment->time_ns : 0;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
      return setting.monotonic ? setting.moment->steady_ns : 0;
    default:
      return 0;
  }
}

// The first of so many blocks that nobody else has drawn in this operation. One word says how many
// were drawn and in which operation, so that no lock is needed, which a fork could leave taken.
uint64_t Taken(uint64_t seed, uint64_t number, uint64_t blocks) {
  static uint64_t drawn = 0;
  const uint64_t tag = ((seed ^ number * 0x9E3779B97F4A7C15u) | uint64_t{1} << 40) & ~kCountMask;
  uint64_t before = __atomic_load_n(&drawn, __ATOMIC_RELAXED);
  for (;;) {
    const uint64_t first = (before & ~kCountMask) == tag ? before & kCountMask : 0;
    const uint64_t after = tag | (first + blocks);
    if (__atomic_compare_exchange_n(&drawn, &before, after, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED)) {
      return first;
    }
  }
}

// False where randomness is the machine's.
bool Draw(void* buffer, size_t size) {
  const Setting& setting = Settings();
  const uint64_t number = setting.moment->number;
  if (!setting.randomness || number == 0) return false;
  const uint64_t seed = setting.moment->seed;
  uint64_t count = Taken(seed, number, (size + kBlock - 1) / kBlock);
  auto* out = static_cast<uint8_t*>(buffer);
  while (size > 0) {
    uint8_t block[kBlock];
    satchel::ChachaBlock(seed, number, count++, block);
    const size_t part = size < kBlock ? size : kBlock;
    memcpy(out, block, part);
    out += part;
    size -= part;
  }
  return true;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const uint64_t now = StandsAt(clock);
  if (now == 0) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  time->tv_sec = static_cast<time_t>(now / kSecond);
  time->tv_nsec = static_cast<long>(now % kSecond);
  return 0;
}

int timespec_get(timespec* time, int base) noexcept {
  return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  timespec now{};
  if (zone != nullptr) memset(zone, 0, sizeof(struct timezone));
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  if (Draw(buffer, size)) return static_cast<ssize_t>(size);
  return syscall(SYS_getrandom, buffer, size, flags);
}

int getentropy(void* buffer, size_t size) {
  if (size > kMaxEntropy) {
    errno = EIO;
    return -1;
  }
  return getrandom(buffer, size, 0) == static_cast<ssize_t>(size) ? 0 : -1;
}

void arc4random_buf(void* buffer, size_t size) noexcept {
  auto* out = static_cast<uint8_t*>(buffer);
  while (size > 0) {
    const size_t part = size < kMaxEntropy ? size : kMaxEntropy;
    if (getrandom(out, part, 0) != static_cast<ssize_t>(part)) abort();
    out += part;
    size -= part;
  }
}

uint32_t arc4random() noexcept {
  uint32_t word = 0;
  arc4random_buf(&word, sizeof(word));
  return word;
}

uint32_t arc4random_uniform(uint32_t bound) noexcept {
  if (bound < 2) return 0;
  const uint32_t uneven = -bound % bound;
  uint32_t word = arc4random();
  while (word < uneven) word = arc4random();
  return word % bound;
}

}  // extern "C"
