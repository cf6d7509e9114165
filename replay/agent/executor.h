// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Executes operations in order and at most once.
//
// What makes it so is three things in memory, which a checkpoint therefore carries: the number of
// the last executed operation, a fingerprint of it and its outcome. An operation counts as executed
// from the moment its first byte may have reached the service, whatever becomes of it then: it is
// never sent twice. One that found no listening service does not count, and may come again.
//
//   state          event                     next
//   kIdle          Submit accepts            kWaiting
//   kWaiting       the service is alive      kConnecting
//   kConnecting    connected                 kExchanging   (from here on it counts)
//   kConnecting    refused                   kWaiting      (tries again until the deadline)
//   kExchanging    end of file               kIdle, kOk
//   kExchanging    a piece is sent on        kIdle, kOk; the connection waits for the next piece
//   any            deadline                  kIdle, kNotReady or kTimeout
//
// A long request comes in pieces, each an operation (replay/uploads.py). Their connection is in
// memory, so a checkpoint between two pieces has it. Any other operation ends it.
#ifndef SATCHEL_REPLAY_AGENT_EXECUTOR_H_
#define SATCHEL_REPLAY_AGENT_EXECUTOR_H_

#include <poll.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "replay/agent/frame.h"
#include "replay/agent/moment.h"
#include "replay/agent/service.h"
#include "replay/agent/sys.h"

namespace satchel {

struct Outcome {
  uint16_t status = kOk;
  std::shared_ptr<const std::string> payload;
};

class Executor {
 public:
  // set_clock: CLOCK_REALTIME becomes the operation's time before it is sent.
  Executor(const Service& service, bool set_clock)
      : service_(service), set_clock_(set_clock), moment_(service.config().moment) {}

  // An execute or read request. An outcome: answer with it now. Nothing: the operation is under
  // way, Step() will say when it is finished. The operation that is under way may be submitted
  // again, as a host does that lost its connection.
  std::optional<Outcome> Submit(Frame* request);

  // Does what is possible without waiting; an outcome when the operation has just finished.
  std::optional<Outcome> Step();

  // The machine goes on elsewhere, or once more: programs see another seed (reseed.cc). Only where
  // there are no operations, whose moment it would be.
  void SetWakened(uint64_t seed) { moment_.Set(0, 0, seed, false); }

  // What the service has said since the last call, of an operation under way that was submitted
  // with kWantsParts or kWantsStream; empty for others, and when the operation is finished.
  struct Part {
    uint64_t position = 0;
    std::string bytes;
  };
  Part TakePart();

  // What to wait for: a descriptor and events (fd -1: nothing), and a time.
  pollfd interest() const;
  Millis wake_time() const;

  uint64_t last() const { return last_; }
  uint64_t executing() const { return state_ == State::kIdle ? 0 : current_.number; }

 private:
  enum class State { kIdle, kWaiting, kConnecting, kExchanging };

  // Two requests with one number are the same operation if all of this agrees.
  struct Identity {
    uint64_t number = 0;
    uint64_t time_ns = 0;
    uint64_t seed = 0;
    uint32_t length = 0;
    uint32_t crc = 0;
    uint8_t type = 0;
    bool operator==(const Identity& other) const;
  };

  static Identity Identify(const Frame& request);
  void Want(const FrameHeader& header);
  std::optional<Outcome> GoOn(uint8_t piece);
  std::optional<Outcome> PassOn();
  bool HasRoom() const;
  std::optional<Outcome> EndOfResponse();
  void Connect();
  void CheckConnected();
  std::optional<Outcome> Exchange();
  void Send();
  std::optional<Outcome> Finish(uint16_t status, std::string payload);
  void SetMoment();

  const Service& service_;
  const bool set_clock_;
  MomentFile moment_;

  uint64_t last_ = 0;
  Identity last_identity_;
  Outcome last_outcome_;

  // The connection of a long request between two of its pieces, and what the service said so far.
  struct Upload {
    Fd socket;
    std::string response;
    bool ended = false;
  };
  Upload upload_;

  State state_ = State::kIdle;
  Identity current_;
  bool more_ = false;  // it is a piece, and not the last one
  std::string request_;
  size_t sent_ = 0;
  std::string response_;
  bool wants_parts_ = false;
  size_t parted_ = 0;  // bytes of response_ that TakePart() has given
  bool streams_ = false;
  bool ended_ = false;      // the service has said all; TakePart() is to give the rest of it
  uint64_t streamed_ = 0;   // of a streamed response, whose response_ is what comes behind that
  std::string kept_;        // what TakePart() has given of a short one
  bool kept_whole_ = true;  // kept_ is all that it has given
  Millis timeout_ = 0;
  Fd socket_;
  Millis deadline_ = 0;
  Millis retry_at_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_EXECUTOR_H_
