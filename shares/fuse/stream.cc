// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "shares/fuse/message.h"

namespace satchel {
namespace {

using Clock = std::chrono::steady_clock;

fuse_in_header HeadOf(const char* message) {
  fuse_in_header head;
  memcpy(&head, message, sizeof(head));
  return head;
}

size_t SizeOf(const iovec* parts, int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  return size;
}

void Skip(std::vector<iovec>* parts, size_t size) {
  while (!parts->empty() && size >= parts->front().iov_len) {
    size -= parts->front().iov_len;
    parts->erase(parts->begin());
  }
  if (parts->empty()) return;
  parts->front().iov_base = static_cast<char*>(parts->front().iov_base) + size;
  parts->front().iov_len -= size;
}

}  // namespace

Stream::~Stream() {
  close(fd_);
  close(stop_);
}

int Stream::Prepare() {
  const int flags = fcntl(fd_, F_GETFL);
  return flags < 0 || fcntl(fd_, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

int Stream::WaitFor(short events) const {
  for (;;) {
    pollfd of[] = {{fd_, events, 0}, {stop_, POLLIN, 0}};
    if (poll(of, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return -errno;
    }
    if (of[1].revents != 0) return 0;
    if (of[0].revents != 0) return 1;  // an error is found by the call that follows
  }
}

int Stream::ReadAll(char* to, size_t size) {
  while (size > 0) {
    const ssize_t n = read(fd_, to, size);
    if (n == 0) return 0;
    if (n > 0) {
      to += n;
      size -= static_cast<size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return -errno;
    const int ready = WaitFor(POLLIN);
    if (ready <= 0) return ready;
  }
  return 1;
}

int Stream::WriteAll(std::vector<iovec>* parts) {
  while (!parts->empty()) {
    const ssize_t n = writev(fd_, parts->data(), static_cast<int>(parts->size()));
    if (n >= 0) {
      Skip(parts, static_cast<size_t>(n));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return -errno;
    const int ready = WaitFor(POLLOUT);
    if (ready <= 0) return ready;
  }
  return 1;
}

// Whether a message may be taken up now; waits while the stream is held.
bool Stream::BeginMessage() {
  const MutexLock lock(&mutex_);
  while (held_ && !ended_) changed_.Wait(&mutex_);
  between_ = ended_;
  return !ended_;
}

ssize_t Stream::Receive(std::vector<char>* buffer, bool* is_init) {
  const MutexLock reading(&reading_);
  for (;;) {
    const int ready = WaitFor(POLLIN);
    if (ready <= 0) return ready;
    if (!BeginMessage()) return 0;
    char* const message = buffer->data();
    int got = ReadAll(message, sizeof(fuse_in_header));
    const size_t size = got == 1 ? HeadOf(message).len : 0;
    // After a wrong length nothing tells where the next message begins.
    if (got == 1 && (size < sizeof(fuse_in_header) || size > kMaxMessage)) got = -EPROTO;
    if (got == 1) {
      got = ReadAll(message + sizeof(fuse_in_header), size - sizeof(fuse_in_header));
      memset(message + size, 0, kSlack);
    }
    const bool admitted = got == 1 && Admit(message, size, is_init);
    const MutexLock lock(&mutex_);
    between_ = true;
    changed_.NotifyAll();
    if (got <= 0) return got;
    if (admitted) return static_cast<ssize_t>(size);
  }
}

bool Stream::Admit(const char* message, size_t size, bool* is_init) {
  const fuse_in_header head = HeadOf(message);
  Verdict verdict = CheckMessage(message, size);
  *is_init = verdict == Verdict::kInit;
  const bool replied = verdict != Verdict::kNoReply && verdict != Verdict::kNotified;
  {
    const MutexLock lock(&mutex_);
    if (verdict == Verdict::kNotified) {
      // No more than were sent: else a guest would have told in advance.
      if (head.unique <= notified_ && head.unique > taken_) taken_ = head.unique;
      changed_.NotifyAll();
      return false;
    }
    if (head.opcode == FUSE_INTERRUPT && verdict == Verdict::kNoReply) {
      fuse_interrupt_in in;
      memcpy(&in, message + sizeof(head), sizeof(in));
      return under_way_.count(in.unique) != 0;  // libfuse would keep others for ever
    }
    if (inited_ == *is_init) verdict = Verdict::kBad;
    // Nobody could tell the two replies apart.
    if (replied && (head.unique == 0 || under_way_.count(head.unique) != 0)) return false;
    if (verdict == Verdict::kPass || *is_init) under_way_.insert(head.unique);
    inited_ = inited_ || (verdict == Verdict::kInit);
  }
  if (verdict == Verdict::kUnknown) return Answer(message, ENOSYS);
  if (verdict != Verdict::kBad) return true;
  refused_.fetch_add(1);
  return replied && Answer(message, EINVAL);
}

// False, for Admit.
bool Stream::Answer(const char* message, int error) {
  fuse_out_header out = {};
  out.len = sizeof(out);
  out.error = -error;
  out.unique = HeadOf(message).unique;
  const iovec part = {&out, sizeof(out)};
  Send(&part, 1);
  return false;
}

ssize_t Stream::Send(const iovec* parts, int count) {
  const MutexLock writing(&writing_);
  fuse_out_header out;
  memcpy(&out, parts[0].iov_base, sizeof(out));
  {
    const MutexLock lock(&mutex_);
    if (swallow_ && out.unique != 0) {
      swallow_ = false;
      return static_cast<ssize_t>(SizeOf(parts, count));
    }
    if (out.unique == 0) ++notified_;
  }
  std::vector<iovec> left(parts, parts + count);
  const int sent = WriteAll(&left);
  if (out.unique != 0) {
    const MutexLock lock(&mutex_);
    under_way_.erase(out.unique);
    changed_.NotifyAll();
  }
  if (sent == 1) return static_cast<ssize_t>(SizeOf(parts, count));
  errno = sent == 0 ? ENOTCONN : -sent;
  return -1;
}

void Stream::Swallow() {
  const MutexLock lock(&mutex_);
  inited_ = true;
  swallow_ = true;
}

void Stream::Stop() {
  const MutexLock lock(&mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

bool Stream::WaitNotified(std::chrono::milliseconds most) {
  const auto until = Clock::now() + most;
  const MutexLock lock(&mutex_);
  const uint64_t wanted = notified_;
  while (taken_ < wanted && !ended_) {
    if (!changed_.WaitUntil(&mutex_, until)) break;
  }
  return taken_ >= wanted;
}

bool Stream::Drain(std::chrono::milliseconds most) {
  const auto until = Clock::now() + most;
  const MutexLock lock(&mutex_);
  held_ = true;
  while (!(between_ && under_way_.empty()) && !ended_) {
    if (!changed_.WaitUntil(&mutex_, until)) break;
  }
  return between_ && under_way_.empty();
}

void Stream::Resume() {
  const MutexLock lock(&mutex_);
  held_ = false;
  changed_.NotifyAll();
}

}  // namespace satchel
