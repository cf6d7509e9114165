// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The links of one process and the loop that moves their packets: one thread, epoll over the
// TUN devices, the control socket and one timer with absolute deadlines.
//
// A turn reads what has arrived, delivers what is due (again, while that makes packets arrive at
// the next link of their way) and sets the timer to the next delivery.
// Turns are at least kTurn apart while packets flow, so that a fast flow costs some thousand
// wake-ups a second and not one per packet; a lone packet does not wait for a turn. A delivery
// is therefore up to kTurn late, and by as much as the scheduler adds. Lateness does not add up:
// departures are computed from the packet before (direction.h), at most kCatchUp is made good.
#ifndef SATCHEL_TESTBED_LINK_EMULATOR_H_
#define SATCHEL_TESTBED_LINK_EMULATOR_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "testbed/link/direction.h"

namespace satchel::link {

inline constexpr int64_t kTurn = 500'000;        // ns
inline constexpr int64_t kCatchUp = 20'000'000;  // ns
inline constexpr int kPacketsPerTurn = 256;      // read from one device at a time
inline constexpr int kRounds = 4;

// One of the two devices of a link, and the direction that starts there.
struct End {
  int fd;
  uint64_t token;  // epoll's name for it, never used again after Remove
  Direction out;
};

struct Link {
  std::array<End, 2> ends;  // [0] the leaf: its direction is `up`; [1] the core: `down`
};

struct Place {
  std::string netns;  // path
  std::string interface;
};

class Emulator {
 public:
  explicit Emulator(int control_fd);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // Returns when the other end of the control socket is closed: 0, or 1 after a failed call.
  int Run();

  // The commands (control.h). False: nothing has changed, and `*error` says why.
  bool Add(const std::string& name, const Place& leaf, const Place& core, uint64_t seed,
           std::string* error);
  bool Remove(const std::string& name, std::string* error);
  Link* Find(const std::string& name, std::string* error);

 private:
  bool Watch(int fd, uint64_t token);
  void Turn(int64_t now);
  bool WaitForEvent();
  void WaitForTurn();
  bool ServeControl();
  bool ReadReady(int64_t now, int64_t lateness, bool* request);  // these three: moved a packet?
  bool Read(End* end, int64_t now, int64_t lateness);
  bool DeliverDue(int64_t now);
  int64_t NextDelivery() const;

  const int control_;
  const int epoll_;
  const int timer_;
  uint64_t next_token_;
  bool finished_ = false;   // the control socket was closed
  int64_t due_ = kNever;    // the next delivery, as this turn began to wait for it
  int64_t armed_ = kNever;  // what the timer is set to
  int64_t last_turn_ = 0;   // when packets were last moved
  BufferPool pool_;
  std::map<std::string, std::unique_ptr<Link>> links_;
  std::map<uint64_t, End*> ends_;
};

}  // namespace satchel::link

#endif  // SATCHEL_TESTBED_LINK_EMULATOR_H_
