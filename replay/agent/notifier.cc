// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/notifier.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <thread>
#include <vector>

#include "replay/agent/chacha.h"
#include "replay/agent/moment.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

namespace satchel {
namespace {

// What was /dev/urandom has one of these numbers, so that the filter can tell its reads from
// others.
constexpr uint32_t kFirstDevice = 4032;
constexpr uint32_t kDevices = 64;
constexpr rlim_t kDescriptors = kFirstDevice + kDevices;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kMostAtOnce = 1u << 20;
constexpr size_t kPiece = 4096;
constexpr uint32_t kClocks[] = {CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_TAI};
constexpr uint32_t kSteadyClocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_RAW,
                                      CLOCK_BOOTTIME};

using Filter = std::vector<sock_filter>;

void Add(Filter* filter, uint16_t code, uint32_t value, uint8_t yes = 0, uint8_t no = 0) {
  filter->push_back({code, yes, no, value});
}

void Ask(Filter* filter) { Add(filter, BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF); }

void Allow(Filter* filter) { Add(filter, BPF_RET | BPF_K, SECCOMP_RET_ALLOW); }

void Load(Filter* filter, size_t offset) {
  Add(filter, BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}

void AskAbout(Filter* filter, uint32_t call) {
  Add(filter, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
  Ask(filter);
}

// The call's first argument is one of these. What follows is reached by other calls only.
void AskAboutClocks(Filter* filter, const std::vector<uint32_t>& clocks) {
  const auto skipped = static_cast<uint8_t>(2 + 2 * clocks.size());
  Add(filter, BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, skipped);
  Load(filter, offsetof(seccomp_data, args));
  for (const uint32_t clock : clocks) AskAbout(filter, clock);
  Allow(filter);
}

void AskAboutReads(Filter* filter, uint32_t call) {
  Add(filter, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 5);
  Load(filter, offsetof(seccomp_data, args));
  Add(filter, BPF_JMP | BPF_JGE | BPF_K, kFirstDevice, 0, 2);
  Add(filter, BPF_JMP | BPF_JGE | BPF_K, kFirstDevice + kDevices, 1, 0);
  Ask(filter);
  Allow(filter);
}

Filter MakeFilter(bool time, bool monotonic, bool randomness) {
  Filter filter;
  Load(&filter, offsetof(seccomp_data, arch));
  Add(&filter, BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
  Allow(&filter);
  Load(&filter, offsetof(seccomp_data, nr));
  std::vector<uint32_t> clocks;
  if (time) clocks.insert(clocks.end(), std::begin(kClocks), std::end(kClocks));
  if (monotonic) clocks.insert(clocks.end(), std::begin(kSteadyClocks), std::end(kSteadyClocks));
  if (!clocks.empty()) AskAboutClocks(&filter, clocks);
  if (time) {
    for (const uint32_t call : {SYS_gettimeofday, SYS_time}) AskAbout(&filter, call);
  }
  if (randomness) {
    for (const uint32_t call : {SYS_getrandom, SYS_open, SYS_openat}) AskAbout(&filter, call);
    for (const uint32_t call : {SYS_read, SYS_pread64}) AskAboutReads(&filter, call);
  }
  Allow(&filter);
  return filter;
}

// A descriptor of what the kernel asks, or -1.
int Install(Filter* filter) {
  const sock_fprog program{static_cast<unsigned short>(filter->size()), filter->data()};
  // A signal must not have a call begin again that was answered: it would draw twice.
  for (const unsigned long more : {SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0UL}) {
    const unsigned long flags =
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_SPEC_ALLOW | more;
    const long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (fd >= 0 || errno != EINVAL) return static_cast<int>(fd);
  }
  return -1;
}

// A message of one byte with room for a descriptor, to be sent or filled in.
struct DescriptorMessage {
  DescriptorMessage() {
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof(space);
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;

  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

bool SendDescriptor(int socket, int fd) {
  DescriptorMessage sent;
  cmsghdr* header = CMSG_FIRSTHDR(&sent.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return sendmsg(socket, &sent.message, 0) == 1;
}

// Waits for it; not valid where the other end is closed without.
Fd TakeDescriptor(int socket) {
  DescriptorMessage taken;
  const cmsghdr* header = nullptr;
  if (recvmsg(socket, &taken.message, MSG_CMSG_CLOEXEC) == 1) {
    header = CMSG_FIRSTHDR(&taken.message);
  }
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return Fd();
  int fd = -1;
  memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return Fd(fd);
}

// Who answers one service.
class Answering {
 public:
  Answering(Fd listener, const volatile Moment* moment)
      : listener_(std::move(listener)), moment_(moment) {}

  void Run() {
    seccomp_notif_sizes sizes{};
    if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0) return;
    std::vector<uint64_t> room(std::max<size_t>(sizes.seccomp_notif, sizeof(seccomp_notif)) / 8 +
                               1);
    pollfd listening{listener_.get(), POLLIN, 0};
    for (;;) {
      if (poll(&listening, 1, -1) < 0 && errno != EINTR) return;
      if ((listening.revents & POLLIN) == 0) {
        if ((listening.revents & (POLLHUP | POLLERR)) != 0) return;
        continue;
      }
      std::fill(room.begin(), room.end(), 0);
      auto* asked = reinterpret_cast<seccomp_notif*>(room.data());
      if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, asked) == 0) Handle(*asked);
    }
  }

 private:
  void Handle(const seccomp_notif& asked) {
    const auto* arguments = asked.data.args;
    switch (asked.data.nr) {
      case SYS_clock_gettime:
        return Clock(asked, static_cast<clockid_t>(arguments[0]));
      case SYS_gettimeofday:
        return TimeOfDay(asked);
      case SYS_time:
        return Time(asked);
      case SYS_getrandom:
        return Draw(asked, arguments[0], arguments[1]);
      case SYS_read:
      case SYS_pread64:
        return Draw(asked, arguments[1], arguments[2]);
      case SYS_open:
        return Open(asked, arguments[0], arguments[1]);
      case SYS_openat:
        return Open(asked, arguments[1], arguments[2]);
      default:
        return GoOn(asked);
    }
  }

  void Clock(const seccomp_notif& asked, clockid_t clock) {
    const bool wall = std::find(std::begin(kClocks), std::end(kClocks), clock) != std::end(kClocks);
    const uint64_t now = wall ? moment_->time_ns : moment_->steady_ns;
    if (now == 0) return GoOn(asked);
    const int64_t time[] = {static_cast<int64_t>(now / kSecond),
                            static_cast<int64_t>(now % kSecond)};
    Give(asked, asked.data.args[1], time, sizeof(time), 0);
  }

  void TimeOfDay(const seccomp_notif& asked) {
    const uint64_t now = moment_->time_ns;
    if (now == 0) return GoOn(asked);
    const int64_t time[] = {static_cast<int64_t>(now / kSecond),
                            static_cast<int64_t>(now % kSecond / 1000)};
    const uint64_t zone = 0;  // struct timezone, two ints
    const uint64_t there = asked.data.args[1];
    if (there != 0 && !Write(asked, there, &zone, sizeof(zone))) return Say(asked, 0, -EFAULT);
    if (asked.data.args[0] == 0) return Say(asked, 0, 0);
    Give(asked, asked.data.args[0], time, sizeof(time), 0);
  }

  void Time(const seccomp_notif& asked) {
    const auto now = static_cast<int64_t>(moment_->time_ns / kSecond);
    if (now == 0) return GoOn(asked);
    if (asked.data.args[0] == 0) return Say(asked, now, 0);
    Give(asked, asked.data.args[0], &now, sizeof(now), now);
  }

  void Draw(const seccomp_notif& asked, uint64_t where, uint64_t wanted) {
    const uint64_t number = moment_->number;
    const uint64_t seed = moment_->seed;
    if (number == 0) return GoOn(asked);
    if (number != number_ || seed != seed_) count_ = 0;
    number_ = number;
    seed_ = seed;
    const size_t size = std::min<uint64_t>(wanted, kMostAtOnce);
    for (size_t done = 0; done < size;) {
      uint8_t piece[kPiece];
      const size_t part = std::min(size - done, kPiece);
      for (size_t at = 0; at < part; at += kChachaBlock) {
        ChachaBlock(seed, number, count_++, piece + at);
      }
      if (!Write(asked, where + done, piece, part)) return Say(asked, 0, -EFAULT);
      done += part;
    }
    Say(asked, static_cast<int64_t>(size), 0);
  }

  void Open(const seccomp_notif& asked, uint64_t path, uint64_t flags) {
    char name[16] = {};
    Read(asked, path, name, sizeof(name) - 1);
    const std::string_view said(name);
    if (said != "/dev/urandom" && said != "/dev/random") return GoOn(asked);
    const Fd device(open(name, O_RDONLY | O_CLOEXEC));
    const uint32_t number = Unused(asked.pid);
    if (!device.valid() || number == 0) return GoOn(asked);
    seccomp_notif_addfd added{};
    added.id = asked.id;
    added.flags = SECCOMP_ADDFD_FLAG_SETFD | SECCOMP_ADDFD_FLAG_SEND;
    added.srcfd = static_cast<uint32_t>(device.get());
    added.newfd = number;
    added.newfd_flags = static_cast<uint32_t>(flags & O_CLOEXEC);
    if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ADDFD, &added) >= 0 || errno == ENOENT) return;
    satchel::Say("a program has the machine's %s: %s", name, strerror(errno));
    GoOn(asked);
  }

  // A number that the process has no descriptor of; 0: it has all of them.
  static uint32_t Unused(uint32_t pid) {
    for (uint32_t number = kFirstDevice; number < kFirstDevice + kDevices; ++number) {
      const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
      char link[1];
      if (readlink(path.c_str(), link, sizeof(link)) < 0) return number;
    }
    return 0;
  }

  static void Read(const seccomp_notif& asked, uint64_t where, void* data, size_t size) {
    const size_t first = std::min<size_t>(size, kPiece - where % kPiece);
    iovec here{data, size};
    const iovec there[] = {{reinterpret_cast<void*>(where), first},
                           {reinterpret_cast<void*>(where + first), size - first}};
    process_vm_readv(static_cast<pid_t>(asked.pid), &here, 1, there, 2, 0);
  }

  bool Write(const seccomp_notif& asked, uint64_t where, const void* data, size_t size) {
    // The process may be gone, and another one have its number.
    if (ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_ID_VALID, &asked.id) != 0) return false;
    const iovec here{const_cast<void*>(data), size};
    const iovec there{reinterpret_cast<void*>(where), size};
    const ssize_t written =
        process_vm_writev(static_cast<pid_t>(asked.pid), &here, 1, &there, 1, 0);
    return written == static_cast<ssize_t>(size);
  }

  void Give(const seccomp_notif& asked, uint64_t where, const void* data, size_t size,
            int64_t value) {
    const bool good = Write(asked, where, data, size);
    Say(asked, good ? value : 0, good ? 0 : -EFAULT);
  }

  void Say(const seccomp_notif& asked, int64_t value, int32_t error) {
    Send({asked.id, value, error, 0});
  }

  void GoOn(const seccomp_notif& asked) {
    Send({asked.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE});
  }

  // Where the process is gone nobody waits for it.
  void Send(seccomp_notif_resp answer) {
    ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }

  Fd listener_;
  const volatile Moment* moment_;
  uint64_t number_ = 0;
  uint64_t seed_ = 0;
  uint64_t count_ = 0;  // blocks drawn in that operation
};

bool HasWord(const std::string& words, const char* word) {
  return (" " + words + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

}  // namespace

Notifier::Notifier(const std::string& stands, const std::string& moment)
    : time_(HasWord(stands, "time")),
      monotonic_(HasWord(stands, "monotonic")),
      randomness_(HasWord(stands, "randomness")),
      moment_(moment) {}

bool Notifier::Enter(const Fd& agent) const {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, kDescriptors);
  limit.rlim_max = std::max(limit.rlim_max, kDescriptors);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  Filter filter = MakeFilter(time_, monotonic_, randomness_);
  int fd = Install(&filter);
  if (fd < 0 && errno == EACCES && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    fd = Install(&filter);
  }
  if (fd < 0) return false;
  const Fd listener(fd);
  return SendDescriptor(agent.get(), listener.get());
}

void Notifier::Answer(Fd child) const {
  const Fd file(open(moment_.c_str(), O_RDONLY | O_CLOEXEC));
  void* map = MAP_FAILED;
  if (file.valid()) map = mmap(nullptr, sizeof(Moment), PROT_READ, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) {
    Say("cannot read %s: %s", moment_.c_str(), strerror(errno));
    return;
  }
  std::thread([child = std::move(child), map] {
    if (Fd listener = TakeDescriptor(child.get()); listener.valid()) {
      Answering(std::move(listener), static_cast<const volatile Moment*>(map)).Run();
    }
    munmap(map, sizeof(Moment));
  }).detach();
}

}  // namespace satchel
