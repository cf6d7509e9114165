// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The one service of a guest: what /etc/satchel/service says, and the process that it describes.
//
// The file has lines "key=value"; empty lines, empty values and lines that begin with # do not
// count. A line that begins with a backslash has \n for a newline and \\ for a backslash:
//   command=      run by /bin/sh -c, stays in the foreground. Let it begin with exec, so that the
//                 agent sees the service itself die and not only the shell around it. After exec
//                 and with plain words (PlainWords) it is run without a shell. Without a command
//                 somebody else in the guest keeps the service alive, and there has to be a port
//   port=         the TCP port on 127.0.0.1 that takes operations; without it nothing takes them
//   user=         a number, number:number, or a name in /etc/passwd; the agent's own without it
//   workdir=      / without it
//   environment=  NAME=VALUE; may be repeated
//   shares=       where the owner's shares are mounted; without it there are none (shares.h)
//   egress=       ADDRESS:PORT of IPv4 that is listened at for what goes out, a blank between two
//   streams=      TCP ports on 127.0.0.1 that programs have streams to, a blank between two of them
//   asked=        time, monotonic, randomness: what the kernel asks the agent for (notifier.h)
//   moment=       the path of the moment's file (moment.h); the service has it in SATCHEL_MOMENT
#ifndef SATCHEL_REPLAY_AGENT_SERVICE_H_
#define SATCHEL_REPLAY_AGENT_SERVICE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "replay/agent/notifier.h"
#include "replay/agent/sys.h"

namespace satchel {

// Where the guest's programs connect to for what is outside; in network byte order.
struct Outside {
  uint32_t address = 0;
  uint16_t port = 0;
};

struct ServiceConfig {
  std::string command;
  uint16_t port = 0;
  bool has_user = false;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home = "/";
  std::string workdir = "/";
  std::vector<std::string> environment;
  std::string moment;
  std::string asked;
  std::string shares;
  std::vector<uint16_t> streams;
  std::vector<Outside> egress;
};

// False: the text is not a service description; *error says why.
bool ParseServiceConfig(const std::string& text, ServiceConfig* config, std::string* error);

// The words of a command that is "exec" and words as Python's shlex.join writes them: none has a
// meaning for a shell. Of any other command nothing.
std::vector<std::string> PlainWords(std::string_view command);

// True if a socket listens on the TCP port, told from /proc/net without connecting, so that the
// service does not notice.
bool PortListens(uint16_t port);

// Keeps the service's process alive: a process that dies is started again after a delay that
// doubles from kFirstDelay to kLastDelay, and starts over once a process lived for kLongLife.
class Service {
 public:
  static constexpr Millis kFirstDelay = 100;
  static constexpr Millis kLastDelay = 10'000;
  static constexpr Millis kLongLife = 10'000;

  explicit Service(ServiceConfig config)
      : config_(std::move(config)), notifier_(config_.asked, config_.moment) {}

  // Starts the process if its time has come. Call at least when wake_time() has passed.
  void Tick();
  Millis wake_time() const { return pid_ > 0 || config_.command.empty() ? kNever : start_at_; }

  // A child was reaped; true if it was the service.
  bool Reaped(pid_t pid, int wait_status);

  // Kills the process and what it started in its session. For a host process, not for PID 1.
  void Kill();

  // True if there is a process and it is not on its way out.
  bool Alive() const;

  // True once the port listens, until the process dies.
  bool Ready();

  const ServiceConfig& config() const { return config_; }
  uint64_t restarts() const { return starts_ == 0 ? 0 : starts_ - 1; }
  pid_t pid() const { return pid_; }
  const std::string& last_exit() const { return last_exit_; }

 private:
  // agent: a socket for the notifier; not valid where it is not wanted.
  [[noreturn]] void Exec(const Fd& agent) const;

  ServiceConfig config_;
  Notifier notifier_;
  pid_t pid_ = -1;
  bool ready_ = false;
  uint64_t starts_ = 0;
  Millis start_at_ = 0;
  Millis started_at_ = 0;
  Millis delay_ = kFirstDelay;
  std::string last_exit_;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_SERVICE_H_
