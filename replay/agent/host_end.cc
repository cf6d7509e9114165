// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/host_end.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace satchel {
namespace {

// poll() cannot be told to ignore POLLHUP, so a port without a host is looked at this often.
constexpr Millis kNoHostPause = 100;
constexpr size_t kPiece = 32u << 10;

}  // namespace

void HostEnd::Open() {
  if (port_.fd() < 0) port_.TryOpen();
}

bool HostEnd::Attach(std::string_view mark, std::string* error) {
  if (mark.size() != kMarkSize) {
    *error = "a mark has 16 bytes";
    return false;
  }
  if (port_.fd() >= 0) port_.HostGone();
  Open();
  if (port_.fd() < 0) {
    *error = "nobody is at the port";
    return false;
  }
  Detach();
  attached_ = true;
  mark_ = mark;
  Queue(std::make_shared<const std::string>(mark));
  return true;
}

void HostEnd::Detach() {
  attached_ = false;
  mark_.clear();
  before_.clear();
  incoming_.clear();
  outgoing_.clear();
  outgoing_offset_ = 0;
  outgoing_bytes_ = 0;
  quiet_until_ = 0;
}

void HostEnd::Queue(std::shared_ptr<const std::string> bytes) {
  outgoing_bytes_ += bytes->size();
  outgoing_.push_back(std::move(bytes));
}

pollfd HostEnd::interest() {
  if (quiet_until_ <= Now()) quiet_until_ = 0;
  const short out = outgoing_.empty() ? 0 : POLLOUT;
  const bool listens = attached_ && quiet_until_ == 0;
  return {listens ? port_.fd() : -1, static_cast<short>(POLLIN | out), 0};
}

int HostEnd::pause() const {
  if (quiet_until_ == 0) return -1;
  return static_cast<int>(std::max<Millis>(0, quiet_until_ - Now()));
}

void HostEnd::Write() {
  while (!outgoing_.empty()) {
    const std::string& front = *outgoing_.front();
    const ssize_t count =
        write(port_.fd(), front.data() + outgoing_offset_, front.size() - outgoing_offset_);
    if (count <= 0) return;  // reading tells whether the host has gone
    outgoing_offset_ += static_cast<size_t>(count);
    outgoing_bytes_ -= static_cast<size_t>(count);
    if (outgoing_offset_ < front.size()) continue;
    outgoing_.pop_front();
    outgoing_offset_ = 0;
  }
}

bool HostEnd::Read() {
  char piece[kPiece];
  const ssize_t count = read(port_.fd(), piece, sizeof(piece));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    // A device without a host may have one soon: the next host attaches while the kernel still
    // says that there is none.
    port_.HostGone();
    if (port_.fd() < 0) {
      Detach();
    } else {
      quiet_until_ = Now() + kNoHostPause;
    }
    return false;
  }
  const std::string_view read_now(piece, static_cast<size_t>(count));
  if (mark_.empty()) {
    incoming_.append(read_now);
  } else {
    before_.append(read_now);
    FindMark();
  }
  return true;
}

void HostEnd::FindMark() {
  const size_t at = before_.find(mark_);
  if (at == std::string::npos) {
    before_.erase(0, before_.size() - std::min(before_.size(), kMarkSize - 1));
    return;
  }
  incoming_ = before_.substr(at + kMarkSize);
  before_.clear();
  mark_.clear();
}

}  // namespace satchel
