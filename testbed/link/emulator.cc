// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "testbed/link/emulator.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "testbed/link/control.h"
#include "testbed/link/tun.h"

namespace satchel::link {

namespace {

constexpr uint64_t kControlToken = 0;
constexpr uint64_t kTimerToken = 1;
constexpr uint64_t kFirstEndToken = 2;
constexpr size_t kRequestSize = 4096;
constexpr int64_t kSecond = 1'000'000'000;

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

timespec ToTimespec(int64_t time) { return {time / kSecond, time % kSecond}; }

}  // namespace

Emulator::Emulator(int control_fd)
    : control_(control_fd),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      next_token_(kFirstEndToken) {}

Emulator::~Emulator() {
  for (auto& [token, end] : ends_) close(end->fd);
  if (timer_ >= 0) close(timer_);
  if (epoll_ >= 0) close(epoll_);
}

int Emulator::Run() {
  if (!Watch(control_, kControlToken) || !Watch(timer_, kTimerToken)) {
    std::perror("satchel-link: epoll");
    return 1;
  }
  while (!finished_) {
    due_ = NextDelivery();
    if (due_ > last_turn_ + kTurn && !WaitForEvent()) {
      std::perror("satchel-link: epoll_wait");
      return 1;
    }
    WaitForTurn();
    Turn(Now());
  }
  return 0;
}

bool Emulator::Add(const std::string& name, const Place& leaf, const Place& core, uint64_t seed,
                   std::string* error) {
  if (links_.count(name) != 0) {
    *error = "there is a link " + name;
    return false;
  }
  const int leaf_fd = OpenTun(leaf.netns, leaf.interface, error);
  if (leaf_fd < 0) return false;
  const int core_fd = OpenTun(core.netns, core.interface, error);
  if (core_fd < 0) {
    close(leaf_fd);
    return false;
  }
  End up{leaf_fd, next_token_++, Direction(&pool_, 2 * seed)};
  End down{core_fd, next_token_++, Direction(&pool_, 2 * seed + 1)};
  auto link = std::make_unique<Link>(Link{{std::move(up), std::move(down)}});
  bool watched = true;
  for (End& end : link->ends) {
    ends_[end.token] = &end;
    watched = Watch(end.fd, end.token) && watched;
  }
  links_[name] = std::move(link);
  if (watched) return true;
  Remove(name, error);
  *error = "epoll_ctl: cannot watch the devices of " + name;
  return false;
}

bool Emulator::Remove(const std::string& name, std::string* error) {
  Link* link = Find(name, error);
  if (link == nullptr) return false;
  for (End& end : link->ends) {
    ends_.erase(end.token);
    close(end.fd);
  }
  links_.erase(name);
  return true;
}

Link* Emulator::Find(const std::string& name, std::string* error) {
  const auto found = links_.find(name);
  if (found != links_.end()) return found->second.get();
  *error = "there is no link " + name;
  return nullptr;
}

bool Emulator::Watch(int fd, uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = token;
  return epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool Emulator::WaitForEvent() {
  if (armed_ != due_) {
    itimerspec when{};
    if (due_ != kNever) when.it_value = ToTimespec(std::max<int64_t>(due_, 1));
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
    armed_ = due_;
  }
  epoll_event ready{};
  return epoll_wait(epoll_, &ready, 1, -1) >= 0 || errno == EINTR;
}

void Emulator::WaitForTurn() {
  const int64_t next = last_turn_ + kTurn;
  if (Now() >= next) return;
  const timespec until = ToTimespec(next);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

void Emulator::Turn(int64_t now) {
  const int64_t lateness = due_ < now ? std::min(now - due_, kCatchUp) : 0;
  bool request = false;
  bool moved = true;
  for (int round = 0; moved && round < kRounds; ++round) {
    moved = ReadReady(now, lateness, &request);
    moved = DeliverDue(now) || moved;
    if (moved) last_turn_ = now;
  }
  if (request) finished_ = !ServeControl();
}

bool Emulator::ReadReady(int64_t now, int64_t lateness, bool* request) {
  std::array<epoll_event, 32> ready{};
  const int count = epoll_wait(epoll_, ready.data(), static_cast<int>(ready.size()), 0);
  bool moved = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t token = ready[static_cast<size_t>(i)].data.u64;
    const auto end = ends_.find(token);
    if (end != ends_.end()) moved = Read(end->second, now, lateness) || moved;
    if (token == kControlToken) *request = true;
  }
  return moved;
}

bool Emulator::ServeControl() {
  std::string request(kRequestSize, '\0');
  const ssize_t size = recv(control_, request.data(), request.size(), 0);
  if (size <= 0) return false;
  request.resize(static_cast<size_t>(size));
  const std::string answer = Answer(this, request, Now());
  return send(control_, answer.data(), answer.size(), MSG_NOSIGNAL) >= 0;
}

bool Emulator::Read(End* end, int64_t now, int64_t lateness) {
  for (int i = 0; i < kPacketsPerTurn; ++i) {
    Buffer buffer = pool_.Take();
    const ssize_t size = read(end->fd, buffer.get(), kBufferSize);
    if (size <= 0) {
      pool_.Give(std::move(buffer));
      return i > 0;
    }
    end->out.Arrive(now, lateness, std::move(buffer), static_cast<size_t>(size));
  }
  return true;
}

bool Emulator::DeliverDue(int64_t now) {
  bool moved = false;
  for (auto& [name, link] : links_) {
    for (size_t side = 0; side < 2; ++side) {
      Direction& direction = link->ends[side].out;
      const int receiver = link->ends[1 - side].fd;
      while (direction.NextDelivery() <= now) {
        const Packet& packet = direction.Next();
        direction.Delivered(write(receiver, packet.data.get(), packet.size) ==
                            static_cast<ssize_t>(packet.size));
        moved = true;
      }
    }
  }
  return moved;
}

int64_t Emulator::NextDelivery() const {
  int64_t next = kNever;
  for (const auto& [name, link] : links_) {
    for (const End& end : link->ends) next = std::min(next, end.out.NextDelivery());
  }
  return next;
}

}  // namespace satchel::link
