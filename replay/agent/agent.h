// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The agent: one thread around one poll(), which connects the port, the service, the executor, the
// task, the shares and the streams. Nothing in it waits for anything else, so it answers a hello
// while an operation runs, and it may be frozen and woken up elsewhere at any moment.
#ifndef SATCHEL_REPLAY_AGENT_AGENT_H_
#define SATCHEL_REPLAY_AGENT_AGENT_H_

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

#include "replay/agent/executor.h"
#include "replay/agent/frame.h"
#include "replay/agent/port.h"
#include "replay/agent/service.h"
#include "replay/agent/shares.h"
#include "replay/agent/streams.h"
#include "replay/agent/task.h"

namespace satchel {

class Agent {
 public:
  // config_path: the service description; a guest without one answers, but is never ready.
  // shares_port, streams_port: are looked at only if the description has such.
  // guest: it is in one, whose clock and randomness are its to set.
  Agent(Port port, Port shares_port, Port streams_port, const std::string& config_path, bool guest);

  // Returns on SIGTERM or SIGINT, as an ordinary process; as PID 1 switches off on SIGTERM.
  void Run();

 private:
  void Prepare(const std::string& config_path);
  void Wait();
  Millis NextWake() const;
  void HandleSignals();
  void Reap();
  void ReadPort();
  void WritePort();
  void HostGone();
  void Work();

  void Handle(Frame* request);
  void HandleTask(const Frame& request);
  void HandleShares(const Frame& request);
  void HandleStreams(const Frame& request);
  void AnswerSettled();
  int RunTask(uint8_t type, const std::vector<std::string>& arguments) const;
  std::string StatusText();
  void Reply(uint8_t type, uint32_t id, uint16_t status, uint64_t number,
             std::shared_ptr<const std::string> payload);
  void Reply(const FrameHeader& request, uint16_t status, std::string payload);

  const bool guest_;
  std::string problem_;
  Fd signals_;
  Port port_;
  Millis port_quiet_until_ = 0;
  FrameReader reader_;
  FrameWriter writer_;
  Service service_;
  Executor executor_;
  uint8_t execute_type_ = 0;
  uint32_t execute_id_ = 0;
  Task task_;
  FrameHeader task_request_;
  Shares shares_;
  Streams streams_;
  FrameHeader settle_request_;
  Millis settle_until_ = kNever;  // kNever: nobody waits for that
  Millis settle_look_ = kNever;
  bool stopping_ = false;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_AGENT_H_
