// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/streams.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace satchel {
namespace {

// What waits at the port: more would stand between a stream that has little to say and the host.
constexpr size_t kMaxQueued = 128u << 10;
constexpr size_t kPiece = 32u << 10;
constexpr int kReadsPerTurn = 32;
// For all streams together, in each direction; a stream of a few has more than one of a thousand.
constexpr uint64_t kAllWindows = 16u << 20;
constexpr uint64_t kLeastWindow = 16u << 10;
constexpr uint64_t kMostWindow = 1u << 20;
constexpr rlim_t kDescriptors = 2 * kMaxStreams;

template <typename T>
T Load(std::string_view bytes, size_t offset) {
  T value{};
  memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

template <typename T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// An address that programs of the guest reach here, as if it were outside. Only of a guest's own
// lo.
void TakeAddress(uint32_t address, size_t number) {
  constexpr uint32_t kLoopbackNet = 127;
  if (getpid() != 1 || (ntohl(address) >> 24) == kLoopbackNet) return;
  const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const auto& [request, value] :
       {std::pair<unsigned long, uint32_t>{SIOCSIFADDR, address}, {SIOCSIFNETMASK, INADDR_NONE}}) {
    ifreq change{};
    snprintf(change.ifr_name, sizeof(change.ifr_name), "lo:%zu", number + 1);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = value;
    memcpy(&change.ifr_addr, &to, sizeof(to));
    if (ioctl(fd.get(), request, &change) != 0) Say("%s", ErrnoText("lo").c_str());
  }
}

Fd ListenAt(const Outside& outside) {
  Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = outside.port;
  at.sin_addr.s_addr = outside.address;
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0) {
    Say("%s", ErrnoText("nothing can go out there").c_str());
    listener.Close();
  }
  return listener;
}

void AllowDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kDescriptors) return;
  limit.rlim_cur = kDescriptors;
  limit.rlim_max = std::max(limit.rlim_max, kDescriptors);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Streams::~Streams() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> hold(lock_);
    stopping_ = true;
    Wake();
  }
  thread_.join();
}

void Streams::Start() {
  if (ports_.empty()) return;
  host_.Open();
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ListenForEgress();
  thread_ = std::thread([this] { Run(); });
}

void Streams::Wake() {
  const uint64_t one = 1;
  if (write(wake_.get(), &one, sizeof(one)) < 0) Say("%s", ErrnoText("eventfd").c_str());
}

bool Streams::Attach(std::string_view mark, std::string* error) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (ports_.empty()) {
    *error = "this guest has no streams";
    return false;
  }
  if (!host_.Attach(mark, error)) return false;
  greeted_ = false;
  Greet();
  Wake();
  return true;
}

void Streams::Run() {
  AllowDescriptors();
  std::unique_lock<std::mutex> hold(lock_);
  while (!stopping_) {
    if (host_.attached() && greeted_) Tell();
    if (host_.attached()) host_.Write();
    Drop();
    Poll(&hold);
  }
}

void Streams::Poll(std::unique_lock<std::mutex>* hold) {
  std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}, host_.interest()};
  std::vector<uint32_t> ids;
  for (const auto& [id, stream] : streams_) {
    const short events = Wanted(stream);
    if (events == 0) continue;
    fds.push_back({stream.socket.get(), events, 0});
    ids.push_back(id);
  }
  const size_t first_listener = fds.size();
  if (Awaiting() != nullptr) {
    for (const Fd& listener : listeners_) fds.push_back({listener.get(), POLLIN, 0});
  }
  const int pause = host_.pause();
  hold->unlock();
  const int ready = poll(fds.data(), fds.size(), pause);
  hold->lock();
  if (ready <= 0) return;
  uint64_t count = 0;
  // Of a host that has attached meanwhile nothing has been waited for yet.
  if (fds[0].revents != 0 && read(wake_.get(), &count, sizeof(count)) > 0) return;
  if ((fds[1].revents & POLLOUT) != 0) host_.Write();
  for (size_t index = 0; index < ids.size(); ++index) {
    const auto found = streams_.find(ids[index]);
    if (found != streams_.end()) Serve(&found->second, fds[2 + index].revents);
  }
  for (size_t at = first_listener; at < fds.size(); ++at) {
    if ((fds[at].revents & POLLIN) != 0) Accept(at - first_listener);
  }
  // Last, as a number may be another stream's behind it.
  if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) ReadHost();
}

void Streams::ListenForEgress() {
  for (const Outside& outside : egress_) {
    TakeAddress(outside.address, listeners_.size());
    listeners_.push_back(ListenAt(outside));
  }
}

// The first one that waits for a program that wants to go out.
Streams::Stream* Streams::Awaiting() {
  for (auto& [id, stream] : streams_) {
    if (stream.awaiting && !stream.forgotten) return &stream;
  }
  return nullptr;
}

void Streams::Accept(size_t index) {
  Stream* stream = Awaiting();
  if (stream == nullptr) return;
  Fd socket(accept4(listeners_[index].get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.valid()) return;
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  stream->socket = std::move(socket);
  stream->awaiting = stream->connecting = false;
  Append(&stream->kept, static_cast<uint16_t>(index));
  WriteService(stream);
}

short Streams::Wanted(const Stream& stream) const {
  if (!stream.socket.valid()) return 0;
  if (stream.connecting) return POLLOUT;
  short events = 0;
  if (!stream.service_ended && stream.kept.size() < Window()) events |= POLLIN;
  if (!stream.to_service.empty()) events |= POLLOUT;
  return events;
}

void Streams::Serve(Stream* stream, short events) {
  if (!stream->socket.valid() || events == 0) return;
  if (stream->connecting) return Connected(stream);
  if ((events & POLLOUT) != 0) WriteService(stream);
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && stream->socket.valid()) ReadService(stream);
}

void Streams::Connected(Stream* stream) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(stream->socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return Break(stream);
  }
  stream->connecting = false;
  WriteService(stream);
}

void Streams::ReadService(Stream* stream) {
  char piece[kPiece];
  while (!stream->service_ended && stream->kept.size() < Window()) {
    const ssize_t count = read(stream->socket.get(), piece, sizeof(piece));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count < 0) return Break(stream);
    if (count == 0) {
      stream->service_ended = true;
    } else {
      stream->kept.append(piece, static_cast<size_t>(count));
    }
  }
}

void Streams::WriteService(Stream* stream) {
  size_t written = 0;
  while (written < stream->to_service.size()) {
    const ssize_t count = send(stream->socket.get(), stream->to_service.data() + written,
                               stream->to_service.size() - written, MSG_NOSIGNAL);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (count < 0) return Break(stream);
    written += static_cast<size_t>(count);
  }
  stream->to_service.erase(0, written);
  if (stream->to_service.empty() && stream->host_ended && !stream->service_told) {
    stream->service_told = true;
    shutdown(stream->socket.get(), SHUT_WR);
  }
}

void Streams::Break(Stream* stream) {
  stream->socket.Close();
  stream->reset = true;
  stream->awaiting = false;
  std::string().swap(stream->to_service);
  std::string().swap(stream->kept);
  stream->end_sent = false;  // of a reset stream: whether the host was told
}

void Streams::ReadHost() {
  for (int turn = 0; turn < kReadsPerTurn && host_.Read(); ++turn) {
    std::string_view rest = host_.incoming();
    while (rest.size() >= kStreamHeaderSize) {
      const size_t length = Load<uint32_t>(rest, 0);
      const auto kind = Load<uint8_t>(rest, 4);
      if (length > kMaxStreamPayload || (kind == kStreamHello) == greeted_) {
        Say("the host of the streams sent a record of kind %d and %zu bytes", kind, length);
        return host_.Detach();
      }
      if (rest.size() < kStreamHeaderSize + length) break;
      Handle(kind, Load<uint16_t>(rest, 6), Load<uint32_t>(rest, 8), Load<uint64_t>(rest, 16),
             rest.substr(kStreamHeaderSize, length));
      rest.remove_prefix(kStreamHeaderSize + length);
    }
    host_.incoming().erase(0, host_.incoming().size() - rest.size());
  }
}

void Streams::Handle(uint8_t kind, uint16_t port, uint32_t id, uint64_t position,
                     std::string_view payload) {
  if (kind == kStreamHello) return Hello(payload);
  if (kind == kStreamOpen) return Open(id, port, position);
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.forgotten) return;  // it is over here already
  Stream* stream = &found->second;
  if (kind == kStreamDone) return Forget(stream);
  if (kind == kStreamReset) {
    Break(stream);
    return Forget(stream);
  }
  if (stream->reset) return;
  if (kind == kStreamData) return Take(stream, position, payload);
  if (kind == kStreamEnd) return End(stream, position);
  if (kind == kStreamWindow && payload.size() == sizeof(uint64_t)) {
    return Acknowledge(stream, position, Load<uint64_t>(payload, 0));
  }
  Break(stream);
}

void Streams::Hello(std::string_view payload) {
  greeted_ = true;
  if (payload.size() < kConversationSize) return host_.Detach();
  const std::string_view conversation = payload.substr(0, kConversationSize);
  std::map<uint32_t, std::string_view> known;
  if (conversation == conversation_) {
    for (payload.remove_prefix(kConversationSize); payload.size() >= kStreamEntrySize;
         payload.remove_prefix(kStreamEntrySize)) {
      known[Load<uint32_t>(payload, 0)] = payload.substr(0, kStreamEntrySize);
    }
  }
  // The new conversation may use the same numbers in its next record.
  if (conversation != conversation_) streams_.clear();
  for (auto& [id, stream] : streams_) {
    const auto found = known.find(id);
    if (found == known.end()) {
      Forget(&stream);
    } else if (!stream.reset && !stream.forgotten) {
      Resume(&stream, Load<uint64_t>(found->second, 8), Load<uint64_t>(found->second, 16));
    }
  }
  conversation_ = conversation;
}

void Streams::Resume(Stream* stream, uint64_t acknowledged, uint64_t limit) {
  stream->sent = stream->produced() + (stream->service_ended ? 1 : 0);
  Acknowledge(stream, acknowledged, limit);
  if (stream->reset) return;
  stream->end_sent = stream->service_ended && acknowledged > stream->produced();
  stream->sent = std::min(acknowledged, stream->produced()) + (stream->end_sent ? 1 : 0);
}

void Streams::Open(uint32_t id, uint16_t port, uint64_t limit) {
  if (streams_.count(id) != 0) return Break(&streams_[id]);
  const bool outwards = port == kEgressPort && !egress_.empty();
  const bool known = outwards || std::find(ports_.begin(), ports_.end(), port) != ports_.end();
  if (!known || streams_.size() >= kMaxStreams) return Send(kStreamReset, id, 0, "");
  Stream& stream = streams_[id];
  stream.host_limit = limit;
  stream.awaiting = outwards;
  if (outwards) return;
  stream.socket = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(stream.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (connect(stream.socket.get(), generic, sizeof(address)) == 0) {
    stream.connecting = false;
  } else if (errno != EINPROGRESS) {
    Break(&stream);
  }
}

void Streams::Take(Stream* stream, uint64_t position, std::string_view payload) {
  const uint64_t end = position + payload.size();
  if (stream->host_ended || end <= stream->received) return;  // it came over another line already
  if (position > stream->received || end < position || end > stream->told_limit) {
    return Break(stream);
  }
  payload.remove_prefix(stream->received - position);
  stream->to_service.append(payload);
  stream->received = end;
  if (!stream->connecting) WriteService(stream);
}

void Streams::End(Stream* stream, uint64_t position) {
  if (stream->host_ended) return;
  if (position != stream->received) return Break(stream);
  stream->host_ended = true;
  ++stream->received;
  if (!stream->connecting) WriteService(stream);
}

void Streams::Acknowledge(Stream* stream, uint64_t position, uint64_t limit) {
  if (position > stream->sent || position < stream->acknowledged) return Break(stream);
  const uint64_t bytes = std::min(position, stream->produced());
  stream->kept.erase(0, bytes - stream->acknowledged);
  stream->acknowledged = bytes;
  stream->host_limit = std::max(stream->host_limit, limit);
}

// What the host had sent to its end still goes to the service.
void Streams::Forget(Stream* stream) {
  stream->forgotten = true;
  if (!stream->host_ended) stream->socket.Close();
}

uint64_t Streams::Window() const {
  const uint64_t each = kAllWindows / std::max<uint64_t>(1, streams_.size());
  return std::clamp(each, kLeastWindow, kMostWindow);
}

uint64_t Streams::Limit(const Stream& stream) const {
  const uint64_t written = stream.received - stream.to_service.size();
  return std::max(stream.told_limit, written + Window());
}

void Streams::Greet() {
  std::string payload = conversation_;
  for (auto& [id, stream] : streams_) {
    if (stream.forgotten) continue;
    stream.told_received = stream.received;
    stream.told_limit = Limit(stream);
    Append(&payload, id);
    Append(&payload, stream.reset ? kStreamIsReset : 0u);
    Append(&payload, stream.received);
    Append(&payload, stream.told_limit);
    stream.end_sent = stream.reset || stream.end_sent;
  }
  Send(kStreamHello, 0, 0, payload);
}

// Each stream a piece in its turn, as long as the port is not full.
void Streams::Tell() {
  const auto first = streams_.lower_bound(turn_);
  const auto tell = [this](Table::iterator from, Table::iterator to) {
    for (auto at = from; at != to; ++at) {
      if (at->second.forgotten) continue;
      TellOne(at->first, &at->second);
      if (host_.queued_bytes() >= kMaxQueued) {
        turn_ = at->first + 1;
        return false;
      }
    }
    return true;
  };
  if (tell(first, streams_.end()) && tell(streams_.begin(), first)) turn_ = 0;
}

void Streams::TellOne(uint32_t id, Stream* stream) {
  if (stream->reset) {
    if (!stream->end_sent) Send(kStreamReset, id, 0, "");
    stream->end_sent = true;
    return;
  }
  const uint64_t limit = Limit(*stream);
  if (!stream->connecting &&
      (stream->received != stream->told_received || limit - stream->told_limit >= Window() / 4 ||
       (stream->told_limit == kFirstStreamLimit && limit > kFirstStreamLimit))) {
    stream->told_received = stream->received;
    stream->told_limit = limit;
    std::string payload;
    Append(&payload, limit);
    Send(kStreamWindow, id, stream->received, payload);
  }
  SendOne(id, stream);
}

void Streams::SendOne(uint32_t id, Stream* stream) {
  while (stream->sent < std::min(stream->produced(), stream->host_limit) &&
         host_.queued_bytes() < kMaxQueued) {
    const size_t start = stream->sent - stream->acknowledged;
    const size_t room = stream->host_limit - stream->sent;
    const std::string_view piece =
        std::string_view(stream->kept).substr(start, std::min(room, kPiece));
    Send(kStreamData, id, stream->sent, piece);
    stream->sent += piece.size();
  }
  if (stream->service_ended && !stream->end_sent && stream->sent == stream->produced()) {
    Send(kStreamEnd, id, stream->sent, "");
    ++stream->sent;
    stream->end_sent = true;
  }
}

void Streams::Send(uint8_t kind, uint32_t id, uint64_t position, std::string_view payload) {
  auto record = std::make_shared<std::string>();
  record->reserve(kStreamHeaderSize + payload.size());
  Append(record.get(), static_cast<uint32_t>(payload.size()));
  Append(record.get(), kind);
  Append(record.get(), uint8_t{0});
  Append(record.get(), uint16_t{0});
  Append(record.get(), id);
  Append(record.get(), uint32_t{0});
  Append(record.get(), position);
  record->append(payload);
  host_.Queue(std::move(record));
}

// Streams that the host has forgotten, and of which the service has everything.
void Streams::Drop() {
  for (auto at = streams_.begin(); at != streams_.end();) {
    const Stream& stream = at->second;
    const bool over = stream.reset || stream.service_told || !stream.socket.valid();
    at = stream.forgotten && over ? streams_.erase(at) : std::next(at);
  }
}

}  // namespace satchel
