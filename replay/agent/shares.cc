// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/shares.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace satchel {
namespace {

constexpr size_t kMaxOutgoing = 4u << 20;
constexpr size_t kMaxUnanswered = 32u << 20;
constexpr int kMessagesPerTurn = 64;

template <typename T>
T Load(std::string_view bytes, size_t offset) {
  T value{};
  memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::shared_ptr<const std::string> MakeRecord(ShareRecord kind, uint64_t operation,
                                              std::string_view message) {
  auto record = std::make_shared<std::string>();
  record->reserve(kShareRecordHeaderSize + message.size());
  const auto append = [&record](const auto& value) {
    record->append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(static_cast<uint32_t>(message.size()));
  append(static_cast<uint16_t>(kind));
  append(uint16_t{0});
  append(operation);
  record->append(message);
  return record;
}

}  // namespace

Shares::~Shares() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> hold(lock_);
    stopping_ = true;
    Wake();
  }
  thread_.join();
  umount2(where_.c_str(), MNT_DETACH);
}

void Shares::Mount() {
  if (where_.empty()) return;
  if (access("/dev/fuse", F_OK) != 0) LoadModules({"fuse"});
  Fd device(open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!device.valid()) {
    problem_ = ErrnoText("cannot open /dev/fuse");
    return Say("%s", problem_.c_str());
  }
  mkdir(where_.c_str(), 0755);
  // One guest is one domain of trust: whoever runs in it may use the shares, so allow_other, and no
  // default_permissions. Who owns a file at home says nothing about users in here.
  const std::string options =
      "fd=" + std::to_string(device.get()) + ",rootmode=40755,user_id=0,group_id=0,allow_other";
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOATIME;
  if (mount("satchel", where_.c_str(), "fuse", kFlags, options.c_str()) != 0) {
    problem_ = ErrnoText(("cannot mount " + where_).c_str());
    return Say("%s", problem_.c_str());
  }
  device_ = std::move(device);
  buffer_.resize(kMaxShareMessage);
  host_.Open();
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] { Run(); });
}

void Shares::Wake() {
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) Say("%s", ErrnoText("eventfd").c_str());
}

void Shares::Run() {
  std::unique_lock<std::mutex> hold(lock_);
  while (!stopping_) {
    pollfd fds[] = {
        {wake_.get(), POLLIN, 0},
        {MayTake() ? device_.get() : -1, POLLIN, 0},
        host_.interest(),
    };
    const int pause = host_.pause();
    hold.unlock();
    const int ready = poll(fds, std::size(fds), pause);
    hold.lock();
    if (ready <= 0) continue;
    uint64_t count = 0;
    if (fds[0].revents != 0 && read(wake_.get(), &count, sizeof(count)) > 0) continue;
    if ((fds[2].revents & POLLOUT) != 0) host_.Write();
    if ((fds[2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) ReadPort();
    if (fds[1].revents != 0) ReadDevice();
  }
}

void Shares::SetSettling(bool settling) {
  const std::lock_guard<std::mutex> hold(lock_);
  settling_ = settling;
  if (wake_.valid()) Wake();
}

bool Shares::Attach(std::string_view mark, std::string* error) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (!device_.valid()) {
    *error = where_.empty() ? "this guest has no shares" : problem_;
    return false;
  }
  if (!host_.Attach(mark, error)) return false;
  settling_ = false;
  if (init_) host_.Queue(init_);
  for (const auto& [unique, asked] : unanswered_) host_.Queue(asked.record);
  for (const auto& [unique, asked] : unanswered_) {
    if (asked.interrupt) host_.Queue(asked.interrupt);
  }
  Wake();
  return true;
}

bool Shares::Settled() {
  const std::lock_guard<std::mutex> hold(lock_);
  if (!host_.attached()) return true;
  const auto waits = [](const auto& entry) { return entry.second.opcode == FUSE_SETLKW; };
  return host_.queued_bytes() == 0 && std::all_of(unanswered_.begin(), unanswered_.end(), waits);
}

bool Shares::MayTake() const {
  return host_.attached() && !settling_ && host_.queued_bytes() < kMaxOutgoing &&
         unanswered_bytes_ < kMaxUnanswered;
}

void Shares::ReadDevice() {
  for (int turn = 0; turn < kMessagesPerTurn && MayTake(); ++turn) {
    const ssize_t count = read(device_.get(), buffer_.data(), buffer_.size());
    if (count < 0 && (errno == EINTR || errno == ENOENT)) continue;  // the asker was interrupted
    if (count < 0 && errno == EAGAIN) break;
    if (count < static_cast<ssize_t>(sizeof(fuse_in_header))) {
      problem_ = count < 0 ? ErrnoText("cannot read /dev/fuse") : "/dev/fuse ended";
      Say("%s", problem_.c_str());
      device_.Close();
      break;
    }
    Take(std::string_view(buffer_.data(), static_cast<size_t>(count)));
  }
  if (host_.attached()) host_.Write();
}

void Shares::Take(std::string_view message) {
  const auto header = Load<fuse_in_header>(message, 0);
  auto record = MakeRecord(kShareRequest, operation_, message);
  host_.Queue(record);
  if (header.opcode == FUSE_FORGET || header.opcode == FUSE_BATCH_FORGET) return;
  if (header.opcode == FUSE_INTERRUPT) {
    const auto found = unanswered_.find(Load<fuse_interrupt_in>(message, sizeof(header)).unique);
    if (found != unanswered_.end()) found->second.interrupt = std::move(record);
    return;
  }
  if (header.opcode == FUSE_INIT) init_request_ = message;
  unanswered_bytes_ += record->size();
  unanswered_[header.unique] = {header.opcode, std::move(record), nullptr};
}

void Shares::ReadPort() {
  for (int turn = 0; turn < kMessagesPerTurn && host_.Read(); ++turn) {
    PassReplies();
    if (!host_.attached()) return;
  }
}

void Shares::PassReplies() {
  std::string_view rest = host_.incoming();
  while (rest.size() >= sizeof(fuse_out_header)) {
    const size_t length = Load<fuse_out_header>(rest, 0).len;
    if (length < sizeof(fuse_out_header) || length > kMaxShareMessage) {
      Say("the host of the shares sent a reply of %zu bytes", length);
      return host_.Detach();
    }
    if (rest.size() < length) break;
    PassReply(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  host_.incoming().erase(0, host_.incoming().size() - rest.size());
}

// Passed on is what answers a request: a notice of the host (unique 0) could make the kernel wait
// for a lock whose holder waits for us.
void Shares::PassReply(std::string_view reply) {
  constexpr uint64_t kInterruptBit = 1;
  const auto header = Load<fuse_out_header>(reply, 0);
  const auto found = unanswered_.find(header.unique & ~kInterruptBit);
  if (found == unanswered_.end()) return;
  if (write(device_.get(), reply.data(), reply.size()) < 0 && errno != ENOENT) {
    Say("%s", ErrnoText("the kernel does not take a reply").c_str());
  }
  if ((header.unique & kInterruptBit) != 0) return;
  if (found->second.opcode == FUSE_INIT && header.error == 0) {
    init_ = MakeRecord(kShareInit, 0, init_request_ + std::string(reply));
  }
  unanswered_bytes_ -= found->second.record->size();
  unanswered_.erase(found);
}

}  // namespace satchel
