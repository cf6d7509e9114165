// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The agent protocol: what host and guest say to each other over the virtio-serial port
// "org.satchel.agent". This header defines the format; replay/frames.py mirrors it and
// docs/formats/agent-protocol.md explains it.
//
// A frame is a 48-byte little-endian header and a payload, byte-stuffed as in RFC 1055 (SLIP):
// kEnd before and after it, and inside it kEnd becomes kEsc kEscEnd and kEsc becomes kEsc kEscEsc.
// kEnd therefore never occurs inside a frame, whatever a payload carries, so that
//   - a reader that lost its place (garbage, a host that died in the middle of a frame) is in step
//     again at the next kEnd, and
//   - no payload can pretend to be a frame.
// What stands between two kEnd and is not a frame with the right magic, version, length and CRC is
// dropped in silence.
//
//    0  u32  magic, "SATF"
//    4  u8   version, kFrameVersion
//    5  u8   type, FrameType; a reply carries the request's type with kReplyBit set
//    6  u16  status, FrameStatus; 0 in requests
//    8  u32  id; chosen by the host, repeated in the reply, so that late replies are recognised
//   12  u32  timeout in milliseconds, 0 in replies
//   16  u64  number of the operation; in replies see FrameType
//   24  u64  time of the operation, nanoseconds since 1970, UTC
//   32  u64  seed of the operation
//   40  u32  length of the payload
//   44  u32  CRC-32 (zlib) of bytes 0 to 43 and the payload
#ifndef SATCHEL_REPLAY_AGENT_FRAME_H_
#define SATCHEL_REPLAY_AGENT_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

namespace satchel {

inline constexpr uint32_t kFrameMagic = 0x46544153;
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr uint8_t kReplyBit = 0x80;
inline constexpr size_t kFrameHeaderSize = 48;
inline constexpr size_t kCrcOffset = 44;
inline constexpr size_t kMaxPayload = 64u << 20;

inline constexpr unsigned char kEnd = 0xC0;
inline constexpr unsigned char kEsc = 0xDB;
inline constexpr unsigned char kEscEnd = 0xDC;
inline constexpr unsigned char kEscEsc = 0xDD;

enum FrameType : uint8_t {
  kHello = 1,    // no payload; reply: number = last executed, payload = "key=value" lines
  kExecute = 2,  // payload = raw request; reply: number = last executed, payload = raw response
  kDigest = 3,   // payload = paths, NUL between them; reply: payload = 64 hex digits
  kRun = 4,   // payload = arguments, NUL between them; reply: number = exit code, payload = output
  kSync = 5,  // no payload; the guest's file systems are written back before the reply
  kRead = 6,  // as kExecute, for a request that changes nothing: number = the first operation that
              // it does not need; it does not count as one, and is executed each time
  kSharesAttach = 7,  // payload = 16 bytes: a host comes to the port of the shares (host_end.h)
  kSharesSettle = 8,  // no payload; answered when nothing is under way on that port any more; no
                      // request goes out there from now on
  kSharesGoOn = 9,    // no payload; the end of kSharesSettle
  kPart = 10,  // comes as a reply only, before that to a kExecute or kRead which asks for it;
               // of a streamed response number = the position of its first byte
  kStreamsAttach = 11,  // payload = 16 bytes: a host comes to the port of the streams (streams.h)
  kWaken = 12,  // a machine goes on elsewhere or later: time = the clock's from now on; payload =
                // random bytes, of which the kernel's randomness is made anew
};

// The status field of a kExecute or kRead request: what the service says is wanted as it comes.
// Parts are passed on while nothing else waits at the port; the reply has the whole response still.
inline constexpr uint16_t kWantsParts = 1;

// Likewise: the response comes in parts only, each byte once. The agent keeps none of them but
// those of a short response, and takes from the service what fits through the port. The timeout is
// for each silence of the service, and the reply to a whole response has kStreamed.
inline constexpr uint16_t kWantsStream = 2;

enum FrameStatus : uint16_t {
  kOk = 0,
  kAlreadyExecuted = 1,  // number < last: not executed again, its response is not kept any more
  kGap = 2,              // number > last + 1: not executed
  kConflict = 3,         // number == last or being executed, but it is another operation
  kNotReady = 4,         // the service accepted no connection in time: not executed
  kTimeout = 5,          // executed (or run), but not finished in time
  kTooLarge = 6,         // executed, but the response exceeds kMaxPayload
  kBroken = 7,           // executed, but the service broke off the connection
  kBusy = 8,             // another request of this kind is under way
  kBadRequest = 9,       // the request cannot be meant
  kFailed = 10,          // the guest could not do it; payload = reason
  kStreamed = 11,        // executed; the response was said in parts; payload = its length, 8 bytes
};

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint8_t version = kFrameVersion;
  uint8_t type = 0;
  uint16_t status = 0;
  uint32_t id = 0;
  uint32_t timeout_ms = 0;
  uint64_t number = 0;
  uint64_t time_ns = 0;
  uint64_t seed = 0;
  uint32_t length = 0;
  uint32_t crc = 0;
};
static_assert(sizeof(FrameHeader) == kFrameHeaderSize, "the header has no padding");

struct Frame {
  FrameHeader header;
  std::string payload;
};

// CRC-32 as in zlib; `seed` continues an earlier call.
uint32_t Crc32(std::string_view data, uint32_t seed = 0);

// Finds frames in a stream of bytes. Never fails: what is not a frame is skipped.
class FrameReader {
 public:
  // Takes bytes from the front of *data. True: *frame is the next frame, and *data may hold more;
  // false: *data is used up.
  bool Next(std::string_view* data, Frame* frame);

  // Forgets a half-read frame.
  void Reset();

 private:
  bool Judge(Frame* frame);
  void Take(std::string_view plain);

  std::string content_;
  bool escaped_ = false;
  bool skipping_ = false;
};

// Turns frames into a stream of bytes, piece by piece, so that a large payload is never copied
// whole.
class FrameWriter {
 public:
  void Add(FrameHeader header, std::shared_ptr<const std::string> payload);

  // The bytes to write next; empty when everything is written.
  std::string_view Pending();

  // The first `count` bytes of Pending() are written.
  void Written(size_t count) { staged_offset_ += count; }

  size_t frames() const { return queue_.size(); }
  void Reset();

 private:
  struct Outgoing {
    std::string header;
    std::shared_ptr<const std::string> payload;
    size_t offset = 0;
  };
  void Stage();

  std::deque<Outgoing> queue_;
  std::string staged_;
  size_t staged_offset_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_FRAME_H_
