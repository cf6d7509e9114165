// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The agent's end of the channel: a virtio-serial port in a guest, a Unix socket on a host.
#ifndef SATCHEL_REPLAY_AGENT_PORT_H_
#define SATCHEL_REPLAY_AGENT_PORT_H_

#include <string>

#include "replay/agent/sys.h"

namespace satchel {

class Port {
 public:
  static constexpr char kAgent[] = "org.satchel.agent";
  static constexpr char kShares[] = "org.satchel.shares";
  static constexpr char kStreams[] = "org.satchel.streams";

  enum class Kind {
    kVirtio,     // the port of the name that `path` is, wherever it appears
    kDevice,     // a character device or a Unix socket to connect to
    kListening,  // a Unix socket to listen on, one host after the other, as QEMU does it
  };
  Port(Kind kind, std::string path) : kind_(kind), path_(std::move(path)) {}

  // Opens the port, or takes the next host of a listening one, if that is possible now. Call when
  // fd() is -1 and wake_time() has passed or listener() is readable.
  void TryOpen();

  // The host went away, or reading failed. A device stays open: the next host comes to it too.
  void HostGone();

  // The next call of TryOpen opens anew.
  void Close();

  int fd() const { return fd_.get(); }
  int listener() const { return fd_.valid() ? -1 : listener_.get(); }
  Millis wake_time() const { return fd_.valid() || listener_.valid() ? kNever : retry_at_; }
  const std::string& path() const { return path_; }

 private:
  void OpenVirtio();
  void OpenDevice();
  void Listen();

  const Kind kind_;
  const std::string path_;
  Fd fd_;
  Fd listener_;
  int attempts_ = 0;
  Millis retry_at_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_PORT_H_
