// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/executor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace satchel {
namespace {

constexpr Millis kRetry = 20;
constexpr size_t kPartBytes = 256u << 10;  // of a streamed response, what waits for the port
constexpr size_t kMaxKept = 1u << 20;      // a longer streamed response is not kept

// The head of a piece of a long request, as replay/uploads.py defines it.
constexpr char kPieceMagic[] = "\xffSATPCE\n";
constexpr size_t kPieceHeadBytes = 16;
constexpr uint8_t kBegins = 1;
constexpr uint8_t kEnds = 2;
constexpr uint8_t kBrokenOff = 4;

// Takes the head off: its flags; nothing where the payload is a request of its own.
std::optional<uint8_t> TakePieceHead(std::string* payload) {
  if (payload->size() < kPieceHeadBytes || payload->compare(0, 8, kPieceMagic, 8) != 0) {
    return std::nullopt;
  }
  const auto flags = static_cast<uint8_t>((*payload)[8]);
  payload->erase(0, kPieceHeadBytes);
  return flags;
}

Outcome Refusal(uint16_t status, std::string reason) {
  return Outcome{status, std::make_shared<const std::string>(std::move(reason))};
}

// TCP lets a socket connect to itself when nothing listens and its own port happens to be the same.
bool ConnectedToItself(int fd) {
  sockaddr_in own{};
  sockaddr_in peer{};
  socklen_t size = sizeof(own);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  return own.sin_port == peer.sin_port;
}

}  // namespace

bool Executor::Identity::operator==(const Identity& other) const {
  return number == other.number && time_ns == other.time_ns && seed == other.seed &&
         length == other.length && crc == other.crc && type == other.type;
}

Executor::Identity Executor::Identify(const Frame& request) {
  const FrameHeader& header = request.header;
  return Identity{header.number, header.time_ns,         header.seed,
                  header.length, Crc32(request.payload), header.type};
}

std::optional<Outcome> Executor::Submit(Frame* request) {
  const Identity identity = Identify(*request);
  if (identity.number == 0) return Refusal(kBadRequest, "operations are numbered from 1");
  if (service_.config().port == 0) return Refusal(kBadRequest, "the service has no port");
  if (state_ != State::kIdle) {
    if (identity == current_) {
      Want(request->header);
      return std::nullopt;
    }
    const bool same_number = identity.number == current_.number && identity.type == kExecute &&
                             current_.type == kExecute;
    return Refusal(same_number ? kConflict : kBusy,
                   "operation " + std::to_string(current_.number) + " is under way");
  }
  if (identity.number > last_ + 1) return Refusal(kGap, "");
  const bool counts = identity.type == kExecute;
  if (counts && identity.number < last_) return Refusal(kAlreadyExecuted, "");
  if (counts && identity.number == last_) {
    if (identity == last_identity_) return last_outcome_;
    return Refusal(kConflict, "another operation was executed under this number");
  }
  current_ = identity;
  request_.swap(request->payload);
  streams_ = (request->header.status & kWantsStream) != 0;
  timeout_ = request->header.timeout_ms;
  deadline_ = Now() + timeout_;
  Want(request->header);
  state_ = State::kWaiting;
  retry_at_ = Now();
  if (!counts) return std::nullopt;
  const std::optional<uint8_t> piece = TakePieceHead(&request_);
  if (piece && (*piece & kBegins) == 0) return GoOn(*piece);
  upload_ = Upload{};
  more_ = piece && (*piece & kEnds) == 0;
  return std::nullopt;
}

// A piece that is not the first. It counts whatever has become of those before it.
std::optional<Outcome> Executor::GoOn(uint8_t piece) {
  state_ = State::kExchanging;
  const bool lost = !upload_.socket.valid();
  socket_ = std::move(upload_.socket);
  response_ = std::move(upload_.response);
  ended_ = upload_.ended;
  upload_ = Upload{};
  if ((piece & kBrokenOff) != 0) return Finish(kOk, "");
  if (lost) return Finish(kBroken, "no request is under way that this piece is of");
  more_ = (piece & kEnds) == 0;
  return std::nullopt;
}

// What a service says before it has the whole request is kept for the last piece's response.
std::optional<Outcome> Executor::PassOn() {
  Send();
  char buffer[64u << 10];
  while (HasRoom()) {
    const ssize_t count = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count <= 0) {
      ended_ = true;
    } else {
      response_.append(buffer, static_cast<size_t>(count));
    }
  }
  if (sent_ < request_.size()) return std::nullopt;
  upload_ = Upload{std::move(socket_), std::move(response_), ended_};
  return Finish(kOk, "");
}

// Whoever asks anew gets all from the beginning, and of a long streamed response what is left.
void Executor::Want(const FrameHeader& header) {
  wants_parts_ = (header.status & kWantsParts) != 0;
  parted_ = 0;
  if (!streams_ || !kept_whole_) return;
  response_.insert(0, kept_);
  kept_.clear();
  streamed_ = 0;
}

void Executor::SetMoment() {
  moment_.Set(current_.number, current_.time_ns, current_.seed, current_.type == kExecute);
  if (!set_clock_) return;
  timespec time{};
  time.tv_sec = static_cast<time_t>(current_.time_ns / 1'000'000'000);
  time.tv_nsec = static_cast<long>(current_.time_ns % 1'000'000'000);
  if (clock_settime(CLOCK_REALTIME, &time) != 0) Say("cannot set the clock: %s", strerror(errno));
}

void Executor::Connect() {
  retry_at_ = Now() + kRetry;
  // A dying process may still listen for a moment: what is sent to it would be lost, and count.
  if (!service_.Alive()) return;
  SetMoment();
  socket_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_.valid()) return;
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(service_.config().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (connect(socket_.get(), generic, sizeof(address)) == 0 || errno == EINPROGRESS) {
    state_ = State::kConnecting;
  } else {
    socket_.Close();
  }
}

void Executor::CheckConnected() {
  pollfd check{socket_.get(), POLLOUT, 0};
  if (poll(&check, 1, 0) <= 0) return;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0 && !ConnectedToItself(socket_.get())) {
    state_ = State::kExchanging;
  } else {
    socket_.Close();
    state_ = State::kWaiting;
    retry_at_ = Now() + kRetry;
  }
}

void Executor::Send() {
  while (sent_ < request_.size()) {
    const ssize_t count =
        send(socket_.get(), request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      sent_ = request_.size();  // it reads no more, but may have answered: the reading side decides
      return;
    }
    sent_ += static_cast<size_t>(count);
  }
}

std::optional<Outcome> Executor::Exchange() {
  if (more_) return PassOn();
  Send();
  char buffer[64u << 10];
  for (;;) {
    if (!HasRoom()) {
      deadline_ = Now() + timeout_;  // it is the host who is slow
      return ended_ ? EndOfResponse() : std::nullopt;
    }
    const ssize_t count = recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (count == 0) return EndOfResponse();
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) return std::nullopt;
      return Finish(kBroken, ErrnoText("the service broke off the connection"));
    }
    if (streams_) deadline_ = Now() + timeout_;
    if (response_.size() + static_cast<size_t>(count) > kMaxPayload) {
      return Finish(kTooLarge, "the response exceeds " + std::to_string(kMaxPayload) + " bytes");
    }
    response_.append(buffer, static_cast<size_t>(count));
  }
}

bool Executor::HasRoom() const {
  return (!streams_ && !more_) || (!ended_ && response_.size() < kPartBytes);
}

std::optional<Outcome> Executor::EndOfResponse() {
  if (!streams_) return Finish(kOk, std::move(response_));
  ended_ = true;
  if (!response_.empty()) return std::nullopt;
  std::string length(sizeof(streamed_), '\0');
  memcpy(length.data(), &streamed_, sizeof(streamed_));
  const bool whole = kept_whole_;
  std::string kept = std::move(kept_);
  std::optional<Outcome> outcome = Finish(kStreamed, std::move(length));
  if (whole && current_.type == kExecute) {
    last_outcome_ = Outcome{kOk, std::make_shared<const std::string>(std::move(kept))};
  }
  return outcome;
}

std::optional<Outcome> Executor::Finish(uint16_t status, std::string payload) {
  Outcome outcome{status, std::make_shared<const std::string>(std::move(payload))};
  if (state_ == State::kExchanging && current_.type == kExecute) {
    last_ = current_.number;
    last_identity_ = current_;
    last_outcome_ = outcome;
  }
  state_ = State::kIdle;
  socket_.Close();
  std::string().swap(request_);
  std::string().swap(response_);
  std::string().swap(kept_);
  sent_ = parted_ = 0;
  streamed_ = 0;
  ended_ = more_ = false;
  kept_whole_ = true;
  return outcome;
}

Executor::Part Executor::TakePart() {
  if (more_) return {};
  if (streams_) {
    Part part{streamed_, std::move(response_)};
    response_.clear();
    streamed_ += part.bytes.size();
    kept_whole_ = kept_whole_ && streamed_ <= kMaxKept;
    if (kept_whole_) {
      kept_ += part.bytes;
    } else {
      std::string().swap(kept_);
    }
    return part;
  }
  if (!wants_parts_ || parted_ == response_.size()) return {};
  Part part{parted_, response_.substr(parted_)};
  parted_ = response_.size();
  return part;
}

std::optional<Outcome> Executor::Step() {
  if (state_ == State::kWaiting && Now() >= retry_at_) Connect();
  if (state_ == State::kConnecting) CheckConnected();
  if (state_ == State::kExchanging) {
    if (std::optional<Outcome> outcome = Exchange()) return outcome;
  }
  if (state_ == State::kIdle || Now() < deadline_) return std::nullopt;
  if (state_ == State::kExchanging) {
    return Finish(kTimeout, "the service did not finish its response in time");
  }
  return Finish(kNotReady,
                "the service does not listen on port " + std::to_string(service_.config().port));
}

pollfd Executor::interest() const {
  if (state_ == State::kConnecting) return {socket_.get(), POLLOUT, 0};
  if (state_ != State::kExchanging) return {-1, 0, 0};
  const int events = (HasRoom() ? POLLIN : 0) | (sent_ < request_.size() ? POLLOUT : 0);
  return {events != 0 ? socket_.get() : -1, static_cast<int16_t>(events), 0};
}

Millis Executor::wake_time() const {
  if (state_ == State::kIdle) return kNever;
  return state_ == State::kWaiting ? std::min(retry_at_, deadline_) : deadline_;
}

}  // namespace satchel
