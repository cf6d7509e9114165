// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/agent.h"

#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "replay/agent/digest.h"
#include "replay/agent/init.h"
#include "replay/agent/wakening.h"

namespace satchel {
namespace {

constexpr size_t kMaxQueuedReplies = 16;
constexpr int kReadsPerTurn = 32;
// poll() cannot be told to ignore POLLHUP, so a port without a host is looked at this often.
constexpr Millis kNoHostPause = 100;
constexpr Millis kSettleLook = 5;

ServiceConfig LoadConfig(const std::string& path, std::string* problem) {
  ServiceConfig config;
  const std::string text = ReadSmallFile(path.c_str());
  std::string error = "it is missing or empty";
  if (text.empty() || !ParseServiceConfig(text, &config, &error)) {
    *problem = path + ": " + error;
    Say("%s", problem->c_str());
    return ServiceConfig{};
  }
  return config;
}

Fd BlockSignals() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&wanted, number);
  sigprocmask(SIG_BLOCK, &wanted, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return Fd(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::vector<std::string> SplitAtNul(const std::string& text) {
  std::vector<std::string> parts;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find('\0', start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

int Exec(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  execvp(argv[0], argv.data());
  dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
  return 127;
}

}  // namespace

Agent::Agent(Port port, Port shares_port, Port streams_port, const std::string& config_path,
             bool guest)
    : guest_(guest),
      signals_(BlockSignals()),
      port_(std::move(port)),
      service_(LoadConfig(config_path, &problem_)),
      executor_(service_, guest),
      shares_(std::move(shares_port), service_.config().shares),
      streams_(std::move(streams_port), service_.config().streams, service_.config().egress) {
  shares_.Mount();
  streams_.Start();
  const ServiceConfig& config = service_.config();
  if (guest_ && !(config.streams.empty() && config.egress.empty())) ComeFirst();  // it is carried
}

void Agent::Run() {
  while (!stopping_) {
    Work();
    Wait();
  }
  service_.Kill();
}

Millis Agent::NextWake() const {
  Millis wake =
      std::min({executor_.wake_time(), task_.wake_time(), port_.wake_time(), settle_look_});
  if (problem_.empty()) wake = std::min(wake, service_.wake_time());
  if (port_.fd() >= 0 && port_quiet_until_ > 0) wake = std::min(wake, port_quiet_until_);
  return wake;
}

void Agent::Wait() {
  const Millis now = Now();
  if (port_quiet_until_ <= now) port_quiet_until_ = 0;
  const bool quiet = port_quiet_until_ > 0;
  short wanted = 0;
  if (writer_.frames() < kMaxQueuedReplies) wanted |= POLLIN;
  if (!writer_.Pending().empty()) wanted |= POLLOUT;
  pollfd fds[] = {
      {signals_.get(), POLLIN, 0},   {quiet ? -1 : port_.fd(), wanted, 0},
      {port_.listener(), POLLIN, 0}, {task_.fd(), POLLIN, 0},
      executor_.interest(),
  };
  const Millis wake = NextWake();
  const Millis pause = std::clamp<Millis>(wake == kNever ? -1 : wake - now, -1, 60'000);
  const int ready = poll(fds, std::size(fds), wake == kNever ? -1 : std::max<int>(0, pause));
  if (ready <= 0) return;
  if (fds[0].revents != 0) HandleSignals();
  if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) ReadPort();
  if ((fds[1].revents & POLLOUT) != 0) WritePort();
  if ((fds[1].revents & POLLHUP) != 0) HostGone();
}

void Agent::Work() {
  if (problem_.empty()) service_.Tick();
  if (port_.fd() < 0) port_.TryOpen();
  shares_.SetOperation(executor_.executing());
  if (std::optional<Outcome> outcome = executor_.Step()) {
    shares_.SetOperation(0);
    Reply(execute_type_, execute_id_, outcome->status, executor_.last(), outcome->payload);
  } else if (writer_.frames() == 0) {
    Executor::Part part = executor_.TakePart();
    if (!part.bytes.empty()) {
      Reply(kPart, execute_id_, kOk, part.position,
            std::make_shared<const std::string>(std::move(part.bytes)));
    }
  }
  if (std::optional<Task::Result> result = task_.Step()) {
    const bool failed = task_request_.type != kRun && result->exit_code != 0;
    const uint16_t status = result->timed_out ? kTimeout : failed ? kFailed : kOk;
    Reply(task_request_.type, task_request_.id, status, static_cast<uint64_t>(result->exit_code),
          std::make_shared<const std::string>(std::move(result->output)));
  }
  AnswerSettled();
}

void Agent::HandleSignals() {
  signalfd_siginfo info{};
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    if (getpid() != 1) stopping_ = true;
    if (getpid() == 1 && info.ssi_signo == SIGTERM) PowerOff();
  }
  Reap();
}

void Agent::Reap() {
  int wait_status = 0;
  for (;;) {
    const pid_t pid = waitpid(-1, &wait_status, WNOHANG);
    if (pid <= 0) return;
    if (!service_.Reaped(pid, wait_status)) task_.Reaped(pid, wait_status);
  }
}

void Agent::HostGone() {
  reader_.Reset();
  writer_.Reset();
  port_.HostGone();
  port_quiet_until_ = Now() + kNoHostPause;
}

void Agent::ReadPort() {
  char buffer[32u << 10];
  for (int turn = 0; turn < kReadsPerTurn && writer_.frames() < kMaxQueuedReplies; ++turn) {
    const ssize_t count = read(port_.fd(), buffer, sizeof(buffer));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) {
      HostGone();
      if (count < 0) port_.Close();
      return;
    }
    std::string_view data(buffer, static_cast<size_t>(count));
    Frame request;
    while (reader_.Next(&data, &request)) Handle(&request);
  }
}

void Agent::WritePort() {
  for (std::string_view data = writer_.Pending(); !data.empty(); data = writer_.Pending()) {
    const ssize_t count = write(port_.fd(), data.data(), data.size());
    if (count <= 0) {
      if (count < 0 && errno != EAGAIN && errno != EINTR) HostGone();
      return;
    }
    writer_.Written(static_cast<size_t>(count));
  }
}

void Agent::Reply(uint8_t type, uint32_t id, uint16_t status, uint64_t number,
                  std::shared_ptr<const std::string> payload) {
  FrameHeader header;
  header.type = type | kReplyBit;
  header.id = id;
  header.status = status;
  header.number = number;
  writer_.Add(header, std::move(payload));
}

void Agent::Reply(const FrameHeader& request, uint16_t status, std::string payload) {
  Reply(request.type, request.id, status, executor_.last(),
        std::make_shared<const std::string>(std::move(payload)));
}

std::string Agent::StatusText() {
  std::string text = "agent=1\n";
  text += std::string("ready=") + (service_.Ready() ? "1" : "0") + "\n";
  text += "last=" + std::to_string(executor_.last()) + "\n";
  text += "executing=" + std::to_string(executor_.executing()) + "\n";
  text += "restarts=" + std::to_string(service_.restarts()) + "\n";
  if (!service_.last_exit().empty()) text += "exit=" + service_.last_exit() + "\n";
  if (!problem_.empty()) text += "problem=" + problem_ + "\n";
  return text;
}

void Agent::Handle(Frame* request) {
  const FrameHeader header = request->header;
  switch (header.type) {
    case kHello:
      return Reply(header, kOk, StatusText());
    case kExecute:
    case kRead:
      if (std::optional<Outcome> outcome = executor_.Submit(request)) {
        Reply(header.type, header.id, outcome->status, executor_.last(), outcome->payload);
      } else {
        execute_type_ = header.type;
        execute_id_ = header.id;
      }
      return;
    case kDigest:
    case kRun:
    case kSync:
      return HandleTask(*request);
    case kSharesAttach:
    case kSharesSettle:
    case kSharesGoOn:
      return HandleShares(*request);
    case kStreamsAttach:
    case kWaken:
      return HandleStreams(*request);
    default:
      return Reply(header, kBadRequest, "this agent does not know the request");
  }
}

void Agent::HandleTask(const Frame& request) {
  const FrameHeader& header = request.header;
  if (task_.busy()) return Reply(header, kBusy, "another task is under way");
  const std::vector<std::string> arguments = SplitAtNul(request.payload);
  if (header.type == kRun && arguments.empty()) return Reply(header, kBadRequest, "nothing to run");
  task_request_ = header;
  const auto work = [this, &header, &arguments] { return RunTask(header.type, arguments); };
  if (!task_.Start(work, header.timeout_ms)) {
    Reply(header, kFailed, ErrnoText("cannot make a process"));
  }
}

void Agent::HandleShares(const Frame& request) {
  const FrameHeader& header = request.header;
  if (header.type == kSharesSettle) {
    shares_.Settle();
    settle_request_ = header;
    settle_until_ = Now() + header.timeout_ms;
    return AnswerSettled();
  }
  settle_until_ = settle_look_ = kNever;
  if (header.type == kSharesGoOn) {
    shares_.GoOn();
    return Reply(header, kOk, "");
  }
  std::string error;
  const bool attached = shares_.Attach(request.payload, &error);
  Reply(header, attached ? kOk : kFailed, error);
}

void Agent::HandleStreams(const Frame& request) {
  std::string error;
  bool good = true;
  if (request.header.type == kStreamsAttach) {
    good = streams_.Attach(request.payload, &error);
  } else if (guest_) {
    good = Waken(request.header.time_ns, request.payload, &error);
    uint64_t seed = 0;
    memcpy(&seed, request.payload.data(), std::min(sizeof(seed), request.payload.size()));
    if (good) executor_.SetWakened(seed);
  }
  Reply(request.header, good ? kOk : kFailed, error);
}

void Agent::AnswerSettled() {
  if (settle_until_ == kNever) return;
  const bool settled = shares_.Settled();
  settle_look_ = Now() + kSettleLook;
  if (!settled && Now() < settle_until_) return;
  settle_until_ = settle_look_ = kNever;
  Reply(settle_request_, settled ? kOk : kTimeout, "");
}

int Agent::RunTask(uint8_t type, const std::vector<std::string>& arguments) const {
  if (type == kRun) return Exec(arguments);
  if (type == kSync) {
    sync();
    return 0;
  }
  std::string text;
  std::string error;
  const bool good = DigestPaths(arguments, &text, &error);
  dprintf(STDOUT_FILENO, "%s", good ? text.c_str() : error.c_str());
  return good ? 0 : 1;
}

}  // namespace satchel
