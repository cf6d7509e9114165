// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The streams of a carried service: bytes between programs of the client's and TCP ports of the
// guest, over a port of their own. The agent's connections to the service are in the guest's
// memory, and so is what either side has not acknowledged: a machine that goes on elsewhere has
// them, and no byte is lost, doubled or out of order.
//
// A host attaches with its mark (host_end.h). Behind the marks both sides send records; this header
// defines them, replay/stream_records.py mirrors it, docs/formats/streams.md explains it. All
// numbers are little-endian.
//
//    0  u32  length n of the payload, at most kMaxStreamPayload
//    4  u8   kind, StreamRecord
//    5  u8   0
//    6  u16  port (kStreamOpen)
//    8  u32  stream; numbers are the host's, and used once in a conversation
//   12  u32  0
//   16  u64  position in the stream, from 0; see StreamRecord
//   24   n   payload
//
// Each direction of a stream is a row of bytes, and its end counts as one more. A side says how
// much it has taken into its memory, the acknowledgement, and up to which position it may be sent
// more, the limit. The other side keeps what is not acknowledged, and sends it again to the next
// host.
#ifndef SATCHEL_REPLAY_AGENT_STREAMS_H_
#define SATCHEL_REPLAY_AGENT_STREAMS_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "replay/agent/host_end.h"
#include "replay/agent/service.h"
#include "replay/agent/sys.h"

namespace satchel {

inline constexpr size_t kStreamHeaderSize = 24;
inline constexpr size_t kMaxStreamPayload = 256u << 10;
inline constexpr size_t kMaxStreams = 4096;
inline constexpr size_t kConversationSize = 16;
inline constexpr size_t kStreamEntrySize = 24;
// What a host may send of a stream before it has heard of a limit.
inline constexpr uint64_t kFirstStreamLimit = 16u << 10;

enum StreamRecord : uint8_t {
  // The first record of either side. Payload: the conversation (16 random bytes of the host's; all
  // zero before the first host), then for each stream an entry: stream u32, flags u32
  // (kStreamIsReset), acknowledged u64, limit u64. A conversation that is not the guest's ends all
  // streams that the guest has.
  kStreamHello = 1,
  // Of the host; port; position = the limit of what the guest may send. With kEgressPort it is for
  // the next program of the guest's that wants to go out; that one's destination, its number in the
  // guest's list as a u16, comes before its bytes.
  kStreamOpen = 2,
  kStreamData = 3,    // position of the first byte
  kStreamEnd = 4,     // position = how many bytes there were; the other direction may go on
  kStreamReset = 5,   // the stream is over in both directions
  kStreamWindow = 6,  // position = acknowledged; payload = the limit, u64
  kStreamDone = 7,    // of the host: it has forgotten the stream
};

inline constexpr uint32_t kStreamIsReset = 1;
inline constexpr uint16_t kEgressPort = 0;

class Streams {
 public:
  // ports: those of the guest that a host may open; none in a guest without streams. egress: where
  // programs of the guest connect to for what is outside.
  Streams(Port port, std::vector<uint16_t> ports, std::vector<Outside> egress)
      : host_(std::move(port)), ports_(std::move(ports)), egress_(std::move(egress)) {}
  // Ends the thread; for agents that are not PID 1.
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  // Begins to relay. Call once, before anything else.
  void Start();

  // A new host. False: *error says why there can be none.
  bool Attach(std::string_view mark, std::string* error);

 private:
  struct Stream {
    Fd socket;
    bool connecting = true;
    bool awaiting = false;  // a program of the guest's that wants to go out
    bool reset = false;
    bool forgotten = false;  // by the host: what is here still goes to the service

    // From the host to the service.
    uint64_t received = 0;  // of the host, its end included
    std::string to_service;
    bool host_ended = false;
    bool service_told = false;  // of the host's end
    uint64_t told_received = 0;
    uint64_t told_limit = kFirstStreamLimit;

    // From the service to the host.
    std::string kept;  // what is not acknowledged
    uint64_t acknowledged = 0;
    uint64_t sent = 0;
    uint64_t host_limit = 0;
    bool service_ended = false;
    bool end_sent = false;

    uint64_t produced() const { return acknowledged + kept.size(); }
  };
  using Table = std::map<uint32_t, Stream>;

  // All below is called with the lock held, but Run(), which takes it.
  void Run();
  void Wake();
  void Poll(std::unique_lock<std::mutex>* hold);
  short Wanted(const Stream& stream) const;
  void Serve(Stream* stream, short events);
  void Connected(Stream* stream);
  void ReadService(Stream* stream);
  void WriteService(Stream* stream);
  static void Break(Stream* stream);

  void ReadHost();
  void Handle(uint8_t kind, uint16_t port, uint32_t id, uint64_t position,
              std::string_view payload);
  void Hello(std::string_view payload);
  void Resume(Stream* stream, uint64_t acknowledged, uint64_t limit);
  void Open(uint32_t id, uint16_t port, uint64_t limit);
  void ListenForEgress();
  Stream* Awaiting();
  void Accept(size_t index);
  void Take(Stream* stream, uint64_t position, std::string_view payload);
  void End(Stream* stream, uint64_t position);
  static void Acknowledge(Stream* stream, uint64_t position, uint64_t limit);
  static void Forget(Stream* stream);

  uint64_t Window() const;
  uint64_t Limit(const Stream& stream) const;
  void Greet();
  void Tell();
  void TellOne(uint32_t id, Stream* stream);
  void SendOne(uint32_t id, Stream* stream);
  void Send(uint8_t kind, uint32_t id, uint64_t position, std::string_view payload);
  void Drop();

  std::thread thread_;
  std::mutex lock_;  // held for moments: nothing waits with it
  bool stopping_ = false;
  Fd wake_;

  HostEnd host_;
  const std::vector<uint16_t> ports_;
  const std::vector<Outside> egress_;
  std::vector<Fd> listeners_;  // one for each of egress_; not valid where it cannot be listened
  bool greeted_ = false;       // by the host that is attached
  std::string conversation_ = std::string(kConversationSize, '\0');
  Table streams_;
  uint32_t turn_ = 0;  // the stream that sends first
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_STREAMS_H_
