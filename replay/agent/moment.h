// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The moment of the operation under way, where every program of the guest may read it: a file that
// is mapped, 32 bytes in the byte order of the machine. All 0 before the first operation. The agent
// writes it before it hands an operation to the service; preload.cc reads it.
#ifndef SATCHEL_REPLAY_AGENT_MOMENT_H_
#define SATCHEL_REPLAY_AGENT_MOMENT_H_

#include <cstdint>
#include <string>

namespace satchel {

struct Moment {
  uint64_t time_ns;  // the operation's, since 1970
  uint64_t
      steady_ns;    // the first operation's time, and each step forward since: it never goes back
  uint64_t seed;    // the operation's; of a carried service another one after each wakening
  uint64_t number;  // the operation's; a read's is that of the operation before which it belongs
};

// Who writes it. Does nothing without a path, and where the file cannot be made.
class MomentFile {
 public:
  explicit MomentFile(const std::string& path);
  ~MomentFile();
  MomentFile(const MomentFile&) = delete;
  MomentFile& operator=(const MomentFile&) = delete;

  // counts: false for a read, which another replica does not execute: steady_ns stays.
  void Set(uint64_t number, uint64_t time_ns, uint64_t seed, bool counts);

 private:
  volatile Moment* moment_ = nullptr;
  uint64_t latest_ns_ = 0;  // of the latest operation that counts
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_MOMENT_H_
