// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// FUSE messages over a byte stream, in both directions. They carry their own length in their first
// four bytes, so the stream has no framing of its own. What is at the other end is a guest: each
// message is checked, and nothing here waits longer than until Stop. No Python in here.
//
// Notifications (replies with unique 0) are told to have been taken, by a message of the relay's
// (kNotifiedOpcode): a kernel drops a cached page before its node says that it is gone.
#ifndef SATCHEL_SHARES_FUSE_STREAM_H_
#define SATCHEL_SHARES_FUSE_STREAM_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "chunkstore/core/os/mutex.h"

namespace satchel {

class Stream {
 public:
  // Owns both. `fd` is made non-blocking; `stop` becomes readable when all waiting is to end.
  Stream(int fd, int stop) : fd_(fd), stop_(stop) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // 0, or an errno.
  int Prepare();

  // The next message that libfuse may have, in `buffer`, which has room for kMaxMessage and
  // kSlack: its size; 0 at the end of the stream; or -errno. One thread reads at a time. An
  // INIT comes out once only.
  ssize_t Receive(std::vector<char>* buffer, bool* is_init) EXCLUDES(reading_, mutex_);

  // A whole reply or notification. The number of its bytes, or -1 with errno, as writev(2).
  ssize_t Send(const iovec* parts, int count) EXCLUDES(writing_, mutex_);

  // The next reply is thrown away: that to an INIT which somebody else has answered already. No
  // other INIT is wanted then.
  void Swallow() EXCLUDES(mutex_);

  // Ends all waiting; nothing is received any more.
  void Stop() EXCLUDES(mutex_);

  // Waits until the relay has told that it had all notifications which were sent so far. False if
  // that takes longer, or the stream has ended.
  bool WaitNotified(std::chrono::milliseconds most) EXCLUDES(mutex_);

  // No further message is received, and those that were are answered. False if that takes longer;
  // Resume lets messages in again.
  bool Drain(std::chrono::milliseconds most) EXCLUDES(mutex_);
  void Resume() EXCLUDES(mutex_);

  uint64_t refused() const { return refused_.load(); }

 private:
  // 1, or 0 at the end of the stream or when stopped, or -errno.
  int ReadAll(char* to, size_t size) REQUIRES(reading_) EXCLUDES(mutex_);
  int WriteAll(std::vector<iovec>* parts) REQUIRES(writing_);
  int WaitFor(short events) const;
  bool BeginMessage() EXCLUDES(mutex_);
  bool Answer(const char* message, int error) EXCLUDES(writing_, mutex_);
  // Whether libfuse may have it.
  bool Admit(const char* message, size_t size, bool* is_init) EXCLUDES(writing_, mutex_);

  const int fd_;
  const int stop_;
  std::atomic<uint64_t> refused_{0};

  Mutex reading_;
  Mutex writing_;
  Mutex mutex_;
  CondVar changed_;
  std::unordered_set<uint64_t> under_way_ GUARDED_BY(mutex_);
  bool inited_ GUARDED_BY(mutex_) = false;
  bool swallow_ GUARDED_BY(mutex_) = false;
  bool held_ GUARDED_BY(mutex_) = false;
  bool between_ GUARDED_BY(mutex_) = true;  // no message has been received in part
  bool ended_ GUARDED_BY(mutex_) = false;
  uint64_t notified_ GUARDED_BY(mutex_) = 0;  // notifications that were sent
  uint64_t taken_ GUARDED_BY(mutex_) = 0;     // and were taken by the relay's kernel
};

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_STREAM_H_
