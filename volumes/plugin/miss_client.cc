// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "volumes/plugin/miss_client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "chunkstore/core/format/pack_format.h"
#include "volumes/plugin/nbdkit_api.h"

namespace satchel {
namespace {

constexpr uint64_t kFirstDelayMs = 10;
constexpr uint64_t kLongestDelayMs = 1000;
constexpr int kPollMs = 500;

// This thread's connection to a peer; -1 while it is closed.
struct Connection {
  ~Connection() { Close(); }
  void Close() {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  int fd = -1;
};

thread_local Connection connections[2];  // by MissClient::Peer

// False when nbdkit is shutting down or the NBD client has gone.
bool Sleep(uint64_t ms) {
  return nbdkit_nanosleep(static_cast<unsigned>(ms / 1000),
                          static_cast<unsigned>(ms % 1000 * 1000000)) == 0;
}

bool SendAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

std::string Describe(const MissRequest& request) {
  return std::to_string(request.count) + " absent blocks from block " +
         std::to_string(request.first);
}

Status Cancelled(const MissRequest& request) {
  return Status::Make(Kind::kCancelled, "stopped waiting for " + Describe(request));
}

}  // namespace

MissClient::MissClient(Peer peer, std::string socket_path, uint32_t wait_seconds)
    : peer_(peer), socket_path_(std::move(socket_path)), wait_seconds_(wait_seconds) {}

Status MissClient::Ask(uint32_t volume, uint64_t first, uint32_t count, std::string* content) {
  const MissRequest request{kMissRequestMagic, volume, first, count, 0};
  const uint64_t budget_ms = uint64_t{wait_seconds_} * 1000;
  uint64_t waited_ms = 0;
  uint64_t delay_ms = kFirstDelayMs;
  Connection& connection = connections[static_cast<size_t>(peer_)];
  for (;;) {
    uint32_t status = 0;
    switch (Exchange(request, &status, content)) {
      case Outcome::kAnswered:
        if (status == 0) return {};
        return Status::Make(Kind::kGone, "the daemon cannot bring " + Describe(request),
                            strerror(static_cast<int>(status)));
      case Outcome::kShutdown:
        connection.Close();
        return Cancelled(request);
      case Outcome::kLost:
        connection.Close();
        break;
    }
    if (waited_ms >= budget_ms) {
      return Status::Make(Kind::kGone, "cannot ask for " + Describe(request),
                          "nobody answers at " + socket_path_ + ", tried for " +
                              std::to_string(wait_seconds_) + " s");
    }
    if (!Sleep(delay_ms)) return Cancelled(request);
    waited_ms += delay_ms;
    delay_ms = std::min(delay_ms * 2, kLongestDelayMs);
  }
}

MissClient::Outcome MissClient::Exchange(const MissRequest& request, uint32_t* status,
                                         std::string* content) const {
  content->clear();
  Connection& connection = connections[static_cast<size_t>(peer_)];
  if (connection.fd < 0 && !Connect()) return Outcome::kLost;
  if (!SendAll(connection.fd, &request, sizeof request)) return Outcome::kLost;
  MissReply reply;
  const Outcome outcome = Receive(&reply, sizeof reply);
  if (outcome != Outcome::kAnswered) return outcome;
  if (reply.magic == kMissContentMagic && reply.status == 0) {
    content->resize(size_t{request.count} * kBlockSize);
    return Receive(content->data(), content->size());
  }
  if (reply.magic != kMissReplyMagic) {
    nbdkit_error("%s does not speak the miss protocol", socket_path_.c_str());
    return Outcome::kLost;
  }
  *status = reply.status;
  return Outcome::kAnswered;
}

MissClient::Outcome MissClient::Receive(void* data, size_t size) const {
  const Connection& connection = connections[static_cast<size_t>(peer_)];
  for (size_t have = 0; have < size;) {
    ssize_t n = recv(connection.fd, static_cast<char*>(data) + have, size - have, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
      if (!Sleep(0)) return Outcome::kShutdown;
      continue;
    }
    if (n <= 0) return Outcome::kLost;
    have += static_cast<size_t>(n);
  }
  return Outcome::kAnswered;
}

bool MissClient::Connect() const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path_.size() >= sizeof address.sun_path) return false;
  memcpy(address.sun_path, socket_path_.c_str(), socket_path_.size() + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const timeval look{0, kPollMs * 1000};  // how often it looks whether nbdkit ends
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(fd);
    return false;
  }
  connections[static_cast<size_t>(peer_)].fd = fd;
  return true;
}

}  // namespace satchel
