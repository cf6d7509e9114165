// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Touches pages of a mapping at random, each for the first time, with some threads at once. Two
// ways to get their content:
//
//   faults file PATH OFFSET SIZE THREADS COUNT
//   faults userfaultfd SOCKET EXPORT OFFSET SIZE THREADS COUNT
//
// The first maps a file, as a machine maps what nbdfuse mounts. In the second four threads handle
// faults, each with its own NBD connection, as nbdfuse has four. Prints the median of a touch in
// microseconds, touches a second, and the sum of the bytes touched.
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kPage = 4096;
constexpr int kHandlers = 4;
constexpr unsigned kSeed = 1;

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void Send(int socket, const void* data, size_t size) {
  if (send(socket, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) Fail("send");
}

void Receive(int socket, void* data, size_t size) {
  if (recv(socket, data, size, MSG_WAITALL) != static_cast<ssize_t>(size)) Fail("recv");
}

// One connection to an NBD server, by its oldest handshake.
class NbdConnection {
 public:
  NbdConnection(const char* path, const std::string& name)
      : socket_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      Fail("connect");
    char greeting[18];
    Receive(socket_, greeting, sizeof(greeting));
    const uint32_t no_zeroes = htonl(3);  // fixed newstyle, no zeroes
    Send(socket_, &no_zeroes, sizeof(no_zeroes));
    std::string option("IHAVEOPT\0\0\0\1\0\0\0\0", 16);
    option[15] = static_cast<char>(name.size());
    Send(socket_, (option + name).data(), option.size() + name.size());
    char answer[10];
    Receive(socket_, answer, sizeof(answer));
  }

  void Read(uint64_t offset, void* page) {
    struct [[gnu::packed]] {
      uint32_t magic, type;
      uint64_t handle, offset;
      uint32_t size;
    } request = {htonl(0x25609513), 0, 0, htobe64(offset), htonl(kPage)};
    Send(socket_, &request, sizeof(request));
    char reply[16];
    Receive(socket_, reply, sizeof(reply));
    Receive(socket_, page, kPage);
  }

 private:
  int socket_;
};

void Handle(int uffd, char* base, uint64_t offset, const char* path, const char* name,
            const std::atomic<bool>& over) {
  NbdConnection server(path, name);
  alignas(kPage) static thread_local char content[kPage];
  while (!over) {
    pollfd ready{uffd, POLLIN, 0};
    poll(&ready, 1, 10);
    uffd_msg message;
    if (read(uffd, &message, sizeof(message)) != sizeof(message)) continue;
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    char* page = reinterpret_cast<char*>(message.arg.pagefault.address & ~(kPage - 1));
    server.Read(offset + static_cast<uint64_t>(page - base), content);
    uffdio_copy copy{};
    copy.dst = reinterpret_cast<uintptr_t>(page);
    copy.src = reinterpret_cast<uintptr_t>(content);
    copy.len = kPage;
    if (ioctl(uffd, UFFDIO_COPY, &copy) != 0 && errno != EEXIST) Fail("UFFDIO_COPY");
  }
}

int Registered(char* base, size_t size) {
  const int uffd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (uffd < 0) Fail("userfaultfd");
  uffdio_api api{};
  api.api = UFFD_API;
  if (ioctl(uffd, UFFDIO_API, &api) != 0) Fail("UFFDIO_API");
  uffdio_register range{};
  range.range = {reinterpret_cast<uintptr_t>(base), size};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (ioctl(uffd, UFFDIO_REGISTER, &range) != 0) Fail("UFFDIO_REGISTER");
  return uffd;
}

void Touch(const volatile char* base, size_t size, size_t threads, size_t count) {
  using Clock = std::chrono::steady_clock;
  std::vector<size_t> pages(size / kPage);
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(kSeed));
  count = std::min(count, pages.size());
  std::vector<double> took(count);
  std::atomic<uint64_t> sum{0};
  const auto touch = [&](size_t first) {
    for (size_t at = first; at < count; at += threads) {
      const auto began = Clock::now();
      sum += static_cast<unsigned char>(base[pages[at] * kPage]);
      took[at] = std::chrono::duration<double, std::micro>(Clock::now() - began).count();
    }
  };
  const auto began = Clock::now();
  std::vector<std::thread> at_once;
  for (size_t n = 0; n < threads; ++n) at_once.emplace_back(touch, n);
  for (auto& one : at_once) one.join();
  const double all = std::chrono::duration<double>(Clock::now() - began).count();
  std::nth_element(took.begin(), took.begin() + static_cast<ptrdiff_t>(count / 2), took.end());
  std::printf("%.2f %.0f %llu\n", took[count / 2], static_cast<double>(count) / all,
              static_cast<unsigned long long>(sum.load()));
}

void TouchFile(char** argv) {
  const int file = open(argv[0], O_RDONLY | O_CLOEXEC);
  if (file < 0) Fail(argv[0]);
  const size_t size = std::stoull(argv[2]);
  void* base =
      mmap(nullptr, size, PROT_READ, MAP_SHARED, file, static_cast<off_t>(std::stoull(argv[1])));
  if (base == MAP_FAILED) Fail("mmap");
  madvise(base, size, MADV_RANDOM);
  Touch(static_cast<char*>(base), size, std::stoull(argv[3]), std::stoull(argv[4]));
}

void TouchHandled(char** argv) {
  const uint64_t offset = std::stoull(argv[2]);
  const size_t size = std::stoull(argv[3]);
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) Fail("mmap");
  madvise(mapped, size, MADV_NOHUGEPAGE);
  char* base = static_cast<char*>(mapped);
  const int uffd = Registered(base, size);
  std::atomic<bool> over{false};
  std::vector<std::thread> handlers;
  for (int n = 0; n < kHandlers; ++n)
    handlers.emplace_back(Handle, uffd, base, offset, argv[0], argv[1], std::cref(over));
  Touch(base, size, std::stoull(argv[4]), std::stoull(argv[5]));
  over = true;
  for (auto& one : handlers) one.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  if (way == "file" && argc == 7) {
    TouchFile(argv + 2);
  } else if (way == "userfaultfd" && argc == 8) {
    TouchHandled(argv + 2);
  } else {
    std::fprintf(stderr,
                 "faults file PATH OFFSET SIZE THREADS COUNT\n"
                 "faults userfaultfd SOCKET EXPORT OFFSET SIZE THREADS COUNT\n");
    return 2;
  }
  return 0;
}
