// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/service.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace satchel {
namespace {

constexpr std::string_view kKeys =
    " command port user workdir environment moment asked shares streams egress ";

// What else would depend on the machine, on chance, or on the order of threads. A recipe may say
// otherwise.
constexpr const char* kSameEverywhere[][2] = {
    {"LANG", "C.UTF-8"},           {"LC_ALL", "C.UTF-8"},    {"TZ", "UTC"},
    {"PYTHONHASHSEED", "0"},       {"PERL_HASH_SEED", "0"},  {"PERL_PERTURB_KEYS", "0"},
    {"OMP_NUM_THREADS", "1"},      {"MKL_NUM_THREADS", "1"}, {"NUMEXPR_NUM_THREADS", "1"},
    {"OPENBLAS_NUM_THREADS", "1"},
};

// "\\n" and "\\\\" of an escaped line. False: something else follows a backslash.
bool Unescape(std::string_view text, std::string* plain) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\') {
      plain->push_back(text[at]);
    } else if (++at < text.size() && (text[at] == 'n' || text[at] == '\\')) {
      plain->push_back(text[at] == 'n' ? '\n' : '\\');
    } else {
      return false;
    }
  }
  return true;
}

bool ParseNumber(std::string_view text, unsigned long limit, unsigned long* number) {
  if (text.empty() || text.size() > 10) return false;
  unsigned long value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<unsigned long>(c - '0');
  }
  *number = value;
  return value <= limit;
}

std::string_view TakeUntil(std::string_view* text, char separator) {
  const size_t at = std::min(text->find(separator), text->size());
  const std::string_view head = text->substr(0, at);
  text->remove_prefix(std::min(at + 1, text->size()));
  return head;
}

// getpwnam in a static glibc program loads shared libraries at run time, so /etc/passwd is read
// here.
bool FindUser(std::string_view name, ServiceConfig* config) {
  const std::string passwd = ReadSmallFile("/etc/passwd");
  std::string_view rest = passwd;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(&rest, '\n');
    if (TakeUntil(&line, ':') != name) continue;
    TakeUntil(&line, ':');
    unsigned long uid = 0;
    unsigned long gid = 0;
    if (!ParseNumber(TakeUntil(&line, ':'), UINT32_MAX - 1, &uid)) return false;
    if (!ParseNumber(TakeUntil(&line, ':'), UINT32_MAX - 1, &gid)) return false;
    TakeUntil(&line, ':');
    config->uid = static_cast<uid_t>(uid);
    config->gid = static_cast<gid_t>(gid);
    config->home = TakeUntil(&line, ':');
    return true;
  }
  return false;
}

bool ParseUser(std::string_view text, ServiceConfig* config) {
  std::string_view rest = text;
  const std::string_view user = TakeUntil(&rest, ':');
  unsigned long uid = 0;
  if (!ParseNumber(user, UINT32_MAX - 1, &uid)) return FindUser(text, config);
  unsigned long gid = uid;
  if (!rest.empty() && !ParseNumber(rest, UINT32_MAX - 1, &gid)) return false;
  config->uid = static_cast<uid_t>(uid);
  config->gid = static_cast<gid_t>(gid);
  return true;
}

bool ParsePorts(std::string_view text, std::vector<uint16_t>* ports) {
  while (!text.empty()) {
    unsigned long port = 0;
    if (!ParseNumber(TakeUntil(&text, ' '), UINT16_MAX, &port) || port == 0) return false;
    ports->push_back(static_cast<uint16_t>(port));
  }
  return true;
}

bool ParseOutside(std::string_view text, std::vector<Outside>* outside) {
  while (!text.empty()) {
    std::string_view rest = TakeUntil(&text, ' ');
    const std::string address(TakeUntil(&rest, ':'));
    unsigned long port = 0;
    in_addr parsed{};
    if (inet_pton(AF_INET, address.c_str(), &parsed) != 1) return false;
    if (!ParseNumber(rest, UINT16_MAX, &port) || port == 0) return false;
    outside->push_back({parsed.s_addr, htons(static_cast<uint16_t>(port))});
  }
  return true;
}

bool ParseLine(std::string_view key, std::string_view value, ServiceConfig* config) {
  unsigned long port = 0;
  if (value.empty()) return kKeys.find(" " + std::string(key) + " ") != std::string_view::npos;
  if (key == "command") {
    config->command = value;
  } else if (key == "port") {
    if (!ParseNumber(value, UINT16_MAX, &port)) return false;
    config->port = static_cast<uint16_t>(port);
  } else if (key == "user") {
    config->has_user = true;
    return ParseUser(value, config);
  } else if (key == "workdir") {
    config->workdir = value;
  } else if (key == "moment") {
    config->moment = value;
  } else if (key == "asked") {
    config->asked = value;
  } else if (key == "shares") {
    if (value.front() != '/') return false;
    config->shares = value;
  } else if (key == "streams") {
    return ParsePorts(value, &config->streams);
  } else if (key == "egress") {
    return ParseOutside(value, &config->egress);
  } else if (key == "environment") {
    config->environment.emplace_back(value);
  } else {
    return false;
  }
  return true;
}

// A program that opens /dev/stdout needs the right to open what that leads to. /dev/null has it for
// all, and is not ours alone where the agent runs on a host.
void GiveStandardStreams(uid_t uid) {
  for (const int standard : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat info {};
    if (geteuid() != 0 || fstat(standard, &info) != 0) continue;
    if (S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3)) continue;
    if (fchown(standard, uid, static_cast<gid_t>(-1)) != 0) {
      Say("cannot give standard output to the service's user: %s", strerror(errno));
    }
  }
}

std::string DescribeExit(int wait_status) {
  if (WIFEXITED(wait_status)) return "exit " + std::to_string(WEXITSTATUS(wait_status));
  return "signal " + std::to_string(WTERMSIG(wait_status));
}

// A line of /proc/net/tcp: "  0: 0100007F:1F90 00000000:0000 0A ..."; 0A is LISTEN.
bool TableListens(const char* path, uint16_t port) {
  const std::string table = ReadSmallFile(path);
  std::string_view rest = table;
  while (!rest.empty()) {
    const std::string line(TakeUntil(&rest, '\n'));
    unsigned local_port = 0;
    unsigned state = 0;
    if (sscanf(line.c_str(), " %*[0-9]: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local_port, &state) ==
            2 &&
        local_port == port && state == 0x0A) {
      return true;
    }
  }
  return false;
}

// The kernel marks a process before it closes its sockets: PF_EXITING in the flags, which are the
// seventh field after the name in /proc/PID/stat.
bool IsExiting(pid_t pid) {
  constexpr unsigned long kExiting = 0x4;
  const std::string stat = ReadSmallFile(("/proc/" + std::to_string(pid) + "/stat").c_str());
  const size_t name_end = stat.rfind(')');
  unsigned long flags = 0;
  return name_end == std::string::npos ||
         sscanf(stat.c_str() + name_end + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) != 1 ||
         (flags & kExiting) != 0;
}

}  // namespace

bool ParseServiceConfig(const std::string& text, ServiceConfig* config, std::string* error) {
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    std::string_view line = TakeUntil(&rest, '\n');
    if (line.empty() || line.front() == '#') continue;
    const std::string shown(line);
    std::string plain;
    const bool escaped = line.front() == '\\';
    const bool whole = !escaped || Unescape(line.substr(1), &plain);
    if (escaped) line = plain;
    const bool has_value = line.find('=') != std::string_view::npos;
    const std::string_view key = TakeUntil(&line, '=');
    if (!whole || !has_value || !ParseLine(key, line, config)) {
      *error = "line " + std::to_string(number) + " is not understood: " + shown;
      return false;
    }
  }
  if (!config->command.empty() || config->port != 0) return true;
  *error = "it has neither command= nor port=";
  return false;
}

std::vector<std::string> PlainWords(std::string_view command) {
  constexpr std::string_view kExec = "exec ";
  if (command.substr(0, kExec.size()) != kExec) return {};
  std::vector<std::string> words(1);
  bool quoted = false;
  for (size_t at = kExec.size(); at < command.size(); ++at) {
    const char c = command[at];
    if (c == '\'') {
      quoted = !quoted;
    } else if (quoted) {
      words.back().push_back(c);
    } else if (command.substr(at, 3) == "\"'\"") {
      words.back().push_back('\'');
      at += 2;
    } else if (c == ' ') {
      words.emplace_back();
    } else if (isalnum(static_cast<unsigned char>(c)) != 0 || strchr("@%+=:,./_-", c) != nullptr) {
      words.back().push_back(c);
    } else {
      return {};
    }
  }
  const bool named = !words.front().empty() && words.front().front() != '-';
  return named && !quoted ? words : std::vector<std::string>();
}

bool PortListens(uint16_t port) {
  return TableListens("/proc/net/tcp", port) || TableListens("/proc/net/tcp6", port);
}

void Service::Exec(const Fd& agent) const {
  ResetChild();
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  clearenv();
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  setenv("HOME", config_.home.c_str(), 1);
  for (const auto& fixed : kSameEverywhere) setenv(fixed[0], fixed[1], 1);
  if (!config_.moment.empty()) setenv("SATCHEL_MOMENT", config_.moment.c_str(), 1);
  for (const std::string& pair : config_.environment) {
    const size_t at = pair.find('=');
    if (at == std::string::npos) continue;
    setenv(pair.substr(0, at).c_str(), pair.c_str() + at + 1, 1);
  }
  if (agent.valid() && !notifier_.Enter(agent)) {
    Say("cannot have the kernel ask for time and randomness: %s", strerror(errno));
    _exit(126);
  }
  if (config_.has_user) GiveStandardStreams(config_.uid);
  if (config_.has_user &&
      (setgroups(0, nullptr) != 0 || setgid(config_.gid) != 0 || setuid(config_.uid) != 0)) {
    Say("cannot become the service's user: %s", strerror(errno));
    _exit(126);
  }
  if (chdir(config_.workdir.c_str()) != 0) {
    Say("cannot enter %s: %s", config_.workdir.c_str(), strerror(errno));
    _exit(126);
  }
  // A shell would keep variables from the service whose names it cannot have itself.
  std::vector<std::string> words = PlainWords(config_.command);
  if (words.empty()) words = {"/bin/sh", "-c", config_.command};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  Say("cannot run %s: %s", argv[0], strerror(errno));
  _exit(127);
}

void Service::Tick() {
  if (pid_ > 0 || config_.command.empty() || Now() < start_at_) return;
  int sockets[2] = {-1, -1};
  if (notifier_.wanted() && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    Say("cannot make a socket: %s", strerror(errno));
  }
  Fd ours(sockets[0]);
  const Fd theirs(sockets[1]);
  pid_ = fork();
  if (pid_ == 0) Exec(theirs);
  started_at_ = Now();
  if (pid_ < 0) {
    start_at_ = started_at_ + delay_;
    Say("cannot start the service: %s", strerror(errno));
    return;
  }
  if (ours.valid()) notifier_.Answer(std::move(ours));
  ++starts_;
}

bool Service::Reaped(pid_t pid, int wait_status) {
  if (pid != pid_) return false;
  last_exit_ = DescribeExit(wait_status);
  kill(-pid, SIGKILL);  // what it started could hold the port
  pid_ = -1;
  ready_ = false;
  const Millis now = Now();
  if (now - started_at_ >= kLongLife) delay_ = kFirstDelay;
  start_at_ = now + delay_;
  Say("the service died (%s), starting it again in %lld ms", last_exit_.c_str(),
      static_cast<long long>(delay_));
  delay_ = std::min(delay_ * 2, kLastDelay);
  return true;
}

void Service::Kill() {
  if (pid_ > 0) kill(-pid_, SIGKILL);
}

bool Service::Alive() const { return config_.command.empty() || (pid_ > 0 && !IsExiting(pid_)); }

bool Service::Ready() {
  if (config_.command.empty()) return PortListens(config_.port);
  if (pid_ <= 0) return false;
  if (!ready_) ready_ = config_.port == 0 || PortListens(config_.port);
  return ready_;
}

}  // namespace satchel
