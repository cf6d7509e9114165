// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "testbed/link/direction.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace satchel::link {

namespace {

constexpr double kBitNanoseconds = 8e9;  // per byte at 1 bit/s

}  // namespace

Buffer BufferPool::Take() {
  if (free_.empty()) return std::make_unique<uint8_t[]>(kBufferSize);
  Buffer buffer = std::move(free_.back());
  free_.pop_back();
  return buffer;
}

void BufferPool::Give(Buffer buffer) { free_.push_back(std::move(buffer)); }

void Direction::Set(const Parameters& parameters, int64_t now) {
  if (!parameters.up) {
    for (Packet& packet : packets_) Drop(std::move(packet.data), packet.size);
    packets_.clear();
    last_departure_ = now;
  } else if (parameters.rate != parameters_.rate) {
    Rescale(parameters.rate, now);
  }
  parameters_ = parameters;
}

void Direction::Arrive(int64_t now, int64_t lateness, Buffer data, size_t size) {
  assert(size <= kBufferSize);
  const bool lost = parameters_.loss > 0 && RandomFraction() < parameters_.loss;
  const bool full = (parameters_.queue > 0 && Backlog(now) + size > parameters_.queue) ||
                    packets_.size() >= kPacketsInFlight;
  if (!parameters_.up || lost || full) {
    Drop(std::move(data), size);
    return;
  }
  const int64_t start = last_departure_ >= now - lateness ? last_departure_ : now;
  last_departure_ = start + TransmissionTime(size);
  int64_t delay = parameters_.delay;
  if (parameters_.jitter > 0) {
    const double sway = 2 * RandomFraction() - 1;
    delay += static_cast<int64_t>(sway * static_cast<double>(parameters_.jitter));
  }
  last_delivery_ = std::max(last_departure_ + std::max<int64_t>(delay, 0), last_delivery_);
  packets_.push_back({last_departure_, last_delivery_, size, std::move(data)});
}

void Direction::Delivered(bool taken) {
  assert(!packets_.empty());
  Packet packet = std::move(packets_.front());
  packets_.pop_front();
  if (!taken) {
    Drop(std::move(packet.data), packet.size);
    return;
  }
  counters_.packets += 1;
  counters_.bytes += packet.size;
  pool_->Give(std::move(packet.data));
}

int64_t Direction::TransmissionTime(size_t size) const {
  if (parameters_.rate == 0) return 0;
  return static_cast<int64_t>(static_cast<double>(size) * kBitNanoseconds /
                              static_cast<double>(parameters_.rate));
}

uint64_t Direction::Backlog(int64_t now) const {
  if (parameters_.rate == 0 || last_departure_ <= now) return 0;
  return static_cast<uint64_t>(static_cast<double>(last_departure_ - now) *
                               static_cast<double>(parameters_.rate) / kBitNanoseconds);
}

void Direction::Rescale(uint64_t new_rate, int64_t now) {
  const double factor =
      new_rate == 0 ? 0 : static_cast<double>(parameters_.rate) / static_cast<double>(new_rate);
  int64_t before = now;
  for (Packet& packet : packets_) {
    if (packet.departure > now) {
      const int64_t travel = packet.delivery - packet.departure;
      const double wait = static_cast<double>(packet.departure - now) * factor;
      packet.departure = now + static_cast<int64_t>(wait);
      packet.delivery = std::max(packet.departure + travel, before);
      last_departure_ = packet.departure;
    }
    before = packet.delivery;
  }
  if (!packets_.empty()) last_delivery_ = packets_.back().delivery;
}

void Direction::Drop(Buffer data, size_t size) {
  counters_.drops += 1;
  counters_.dropped_bytes += size;
  pool_->Give(std::move(data));
}

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t Direction::Random() {
  uint64_t z = (random_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Direction::RandomFraction() { return static_cast<double>(Random() >> 11) * 0x1.0p-53; }

}  // namespace satchel::link
