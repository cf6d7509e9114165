// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/preload/line.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace satchel::preload {
namespace {

constexpr int kLines = 8;     // connections that are kept for the next request
constexpr int kLowest = 700;  // number of their descriptors: out of the way of shells
constexpr int kTries = 600;   // of 50 ms, until a node that begins again is given up
constexpr uint32_t kMostReply = 8U << 20;

struct RequestHeader {
  uint32_t size;  // of all that follows this field
  uint32_t op;
  uint64_t file;
  int64_t first;
  int64_t second;
  uint32_t flags;
  uint32_t path;  // bytes of it; the rest is data
};

struct ReplyHeader {
  uint32_t size;  // of all that follows this field
  int32_t error;
  int64_t value;
};
static_assert(sizeof(RequestHeader) == 40 && sizeof(ReplyHeader) == 16, "as messages.py has them");

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int idle[kLines];  // with the mutex
int idle_count = 0;
std::atomic<uint64_t> own[32];  // bits of the descriptors from kLowest on that are connections

void Note(int fd, bool is_line) {
  const unsigned place = static_cast<unsigned>(fd - kLowest);
  if (fd < kLowest || place >= 64 * 32) return;
  const uint64_t bit = uint64_t{1} << (place % 64);
  if (is_line) {
    own[place / 64] |= bit;
  } else {
    own[place / 64] &= ~bit;
  }
}

void Close(int fd) {
  Note(fd, false);
  syscall(SYS_close, fd);
}

// A forked child shares connections with its parent, and must not use them.
void Forked() {
  mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < idle_count; ++i) Close(idle[i]);
  idle_count = 0;
}

__attribute__((constructor)) void Begin() { pthread_atfork(nullptr, nullptr, &Forked); }

int Connect() {
  const char* const path = getenv("SATCHEL_SHARE_SOCKET");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path == nullptr || strlen(path) >= sizeof address.sun_path) return -1;
  memcpy(address.sun_path, path, strlen(path));
  for (int turn = 0; turn < kTries; ++turn) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
      const int high = static_cast<int>(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kLowest));
      if (high < 0) return fd;
      syscall(SYS_close, fd);
      Note(high, true);
      return high;
    }
    const int error = errno;
    syscall(SYS_close, fd);
    if (error != ECONNREFUSED && error != ENOENT && error != EAGAIN) return -1;
    const timespec pause = {0, 50'000'000};
    nanosleep(&pause, nullptr);
  }
  return -1;
}

int Take() {
  pthread_mutex_lock(&mutex);
  const int fd = idle_count > 0 ? idle[--idle_count] : -1;
  pthread_mutex_unlock(&mutex);
  return fd >= 0 ? fd : Connect();
}

void Put(int fd) {
  pthread_mutex_lock(&mutex);
  const bool kept = idle_count < kLines;
  if (kept) idle[idle_count++] = fd;
  pthread_mutex_unlock(&mutex);
  if (!kept) Close(fd);
}

bool Send(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<size_t>(sent);
  }
  return true;
}

bool Receive(int fd, void* data, size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = recv(fd, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool SendAll(int fd, const Request& request) {
  RequestHeader header = {};
  const size_t rest = request.path.size() + request.data.size();
  header.size = static_cast<uint32_t>(sizeof header - sizeof header.size + rest);
  header.op = static_cast<uint32_t>(request.op);
  header.file = request.file;
  header.first = request.first;
  header.second = request.second;
  header.flags = request.flags;
  header.path = static_cast<uint32_t>(request.path.size());
  return Send(fd, &header, sizeof header) && Send(fd, request.path.data(), request.path.size()) &&
         Send(fd, request.data.data(), request.data.size());
}

bool ReceiveAll(int fd, Reply* reply) {
  ReplyHeader header = {};
  constexpr uint32_t kLeast = sizeof header - sizeof header.size;
  if (!Receive(fd, &header, sizeof header)) return false;
  if (header.size < kLeast || header.size > kMostReply) return false;
  reply->error = header.error;
  reply->value = header.value;
  reply->data.resize(header.size - kLeast);
  return Receive(fd, reply->data.data(), reply->data.size());
}

// Whether it may be asked again when the node ended before it answered.
bool Repeats(const Request& request) {
  switch (request.op) {
    case Op::kWrite:
      return request.first >= 0;  // else it is appended
    case Op::kOpen:
      return request.flags == (request.flags & ~static_cast<uint32_t>(O_EXCL | O_TRUNC));
    case Op::kMakeFolder:
    case Op::kRemoveFolder:
    case Op::kUnlink:
    case Op::kRename:
    case Op::kLink:
    case Op::kSymlink:
    case Op::kLock:
      return false;
    default:
      return true;
  }
}

}  // namespace

Reply Ask(const Request& request) {
  const int error = errno;
  Reply reply;
  for (int turn = 0; turn < 3; ++turn) {
    const int fd = Take();
    if (fd < 0) break;
    const bool sent = SendAll(fd, request);
    if (sent && ReceiveAll(fd, &reply)) {
      Put(fd);
      errno = error;
      return reply;
    }
    Close(fd);
    if (sent && !Repeats(request)) break;
  }
  reply = Reply();
  reply.error = EIO;
  errno = error;
  return reply;
}

bool IsLine(int fd) {
  const unsigned place = static_cast<unsigned>(fd - kLowest);
  return fd >= kLowest && place < 64 * 32 && (own[place / 64] >> (place % 64) & 1) != 0;
}

}  // namespace satchel::preload
