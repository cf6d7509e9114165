// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// One direction of an emulated link, without IO and without a clock: the caller passes the time.
//
// A packet that arrives at t leaves the sender's queue at
//     departure = max(t, departure of the packet before) + 8 * bytes / rate
// and reaches the other side at
//     delivery = max(departure + delay + jitter, delivery of the packet before)
// so that packets keep their order, as on a wire. Both times are fixed when the packet arrives:
// there is no token bucket and no burst. A packet is lost on arrival when the direction is down,
// when the seeded generator says so (it then takes no time on the link, as with netem), or when
// the bytes that wait for their departure would exceed the queue.
//
// Times are nanoseconds of one monotonic clock. Not thread-safe.
#ifndef SATCHEL_TESTBED_LINK_DIRECTION_H_
#define SATCHEL_TESTBED_LINK_DIRECTION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

namespace satchel::link {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The longest packet, and the size of every buffer.
inline constexpr size_t kBufferSize = 2048;

// What a direction holds at most, however long its delay: a bound on memory.
inline constexpr size_t kPacketsInFlight = 1 << 16;

using Buffer = std::unique_ptr<uint8_t[]>;

// Buffers of kBufferSize bytes, used again and again.
class BufferPool {
 public:
  Buffer Take();
  void Give(Buffer buffer);

 private:
  std::vector<Buffer> free_;
};

struct Parameters {
  uint64_t rate = 0;   // bit/s; 0: unlimited
  int64_t delay = 0;   // ns, one way
  int64_t jitter = 0;  // ns; uniform in [-jitter, +jitter] on top of the delay
  double loss = 0;     // fraction of packets, 0 to 1
  uint64_t queue = 0;  // bytes that may wait for their departure; 0: unlimited
  bool up = true;
};

// packets and bytes were delivered; drops and dropped_bytes were not, for whatever reason.
struct Counters {
  uint64_t packets = 0;
  uint64_t bytes = 0;
  uint64_t drops = 0;
  uint64_t dropped_bytes = 0;
};

struct Packet {
  int64_t departure;
  int64_t delivery;
  size_t size;
  Buffer data;
};

class Direction {
 public:
  Direction(BufferPool* pool, uint64_t seed) : pool_(pool), random_(seed) {}

  // From now on. A new rate also applies to what waits; a new delay to later packets only.
  // Going down loses everything that is on the way.
  void Set(const Parameters& parameters, int64_t now);
  const Parameters& parameters() const { return parameters_; }

  // Takes the packet (size <= kBufferSize). `lateness` is how long ago the caller should have
  // looked: if the link fell idle in that time, this packet follows the one before without a
  // gap, so that a late caller does not cost capacity.
  void Arrive(int64_t now, int64_t lateness, Buffer data, size_t size);

  // When Next() becomes due; kNever: nothing is on the way.
  int64_t NextDelivery() const { return packets_.empty() ? kNever : packets_.front().delivery; }

  // Precondition: NextDelivery() != kNever. Finish with Delivered().
  const Packet& Next() const { return packets_.front(); }

  // Removes Next() and counts it as delivered, or as dropped if the receiver did not take it.
  void Delivered(bool taken);

  const Counters& counters() const { return counters_; }

 private:
  int64_t TransmissionTime(size_t size) const;
  uint64_t Backlog(int64_t now) const;
  void Rescale(uint64_t new_rate, int64_t now);
  void Drop(Buffer data, size_t size);
  uint64_t Random();
  double RandomFraction();

  BufferPool* const pool_;
  uint64_t random_;
  Parameters parameters_;
  Counters counters_;
  int64_t last_departure_ = 0;
  int64_t last_delivery_ = 0;
  std::deque<Packet> packets_;
};

}  // namespace satchel::link

#endif  // SATCHEL_TESTBED_LINK_DIRECTION_H_
