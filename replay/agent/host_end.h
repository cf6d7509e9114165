// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A port of the guest's and the one host that is at it: the shares' port and the streams' port.
//
// A host comes with 16 random bytes, its mark, which it sends through the agent's port. After that
// each side sends the mark on this port, and drops what comes before the other's: what was under
// way between the guest and an earlier host. The class knows nothing of what comes behind the mark.
//
// Not thread-safe. Nothing waits in it.
#ifndef SATCHEL_REPLAY_AGENT_HOST_END_H_
#define SATCHEL_REPLAY_AGENT_HOST_END_H_

#include <poll.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "replay/agent/port.h"
#include "replay/agent/sys.h"

namespace satchel {

inline constexpr size_t kMarkSize = 16;

class HostEnd {
 public:
  explicit HostEnd(Port port) : port_(std::move(port)) {}

  // Opens the port, if that is possible now: a host may attach sooner then.
  void Open();

  // A new host, which begins with nothing under way but our mark. False: *error says why not.
  bool Attach(std::string_view mark, std::string* error);

  // There is no host any more; what was under way is forgotten.
  void Detach();

  bool attached() const { return attached_; }

  // Sends after what was queued before.
  void Queue(std::shared_ptr<const std::string> bytes);
  size_t queued_bytes() const { return outgoing_bytes_; }

  // What to wait for now. A port without a host is left alone for a while: pause() says how long,
  // in milliseconds, and is -1 if it is not.
  pollfd interest();
  int pause() const;

  // Writes what the port takes.
  void Write();

  // Reads a piece. False: nothing more is there now, or the host has gone (see attached()). What
  // stands behind the mark is in incoming(); whoever takes it erases it there.
  bool Read();
  std::string& incoming() { return incoming_; }

 private:
  void FindMark();

  Port port_;
  bool attached_ = false;
  std::string mark_;    // still to be found in what the host sends; empty once it was
  std::string before_;  // what was read of it
  std::string incoming_;
  std::deque<std::shared_ptr<const std::string>> outgoing_;
  size_t outgoing_offset_ = 0;
  size_t outgoing_bytes_ = 0;
  Millis quiet_until_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_HOST_END_H_
