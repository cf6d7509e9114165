// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/port.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

namespace satchel {
namespace {

constexpr Millis kRetry = 100;
constexpr int kLoadModulesEvery = 20;
constexpr int kFirstLoad = 2;

// Without udev there is no /dev/virtio-ports: the name stands in /sys/class/virtio-ports/vportNpM.
std::string FindVirtioPort(const std::string& wanted) {
  constexpr char kClass[] = "/sys/class/virtio-ports";
  DIR* folder = opendir(kClass);
  if (folder == nullptr) return "";
  std::string found;
  while (const dirent* entry = readdir(folder)) {
    const std::string device = entry->d_name;
    std::string name = ReadSmallFile((std::string(kClass) + "/" + device + "/name").c_str());
    while (!name.empty() && name.back() == '\n') name.pop_back();
    if (name == wanted) found = "/dev/" + device;
  }
  closedir(folder);
  return found;
}

bool SocketAddress(const std::string& path, sockaddr_un* address) {
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof(address->sun_path)) return false;
  memcpy(address->sun_path, path.c_str(), path.size() + 1);
  return true;
}

Fd UnixSocket() { return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

}  // namespace

void Port::OpenVirtio() {
  if (attempts_++ % kLoadModulesEvery == kFirstLoad) {
    LoadModules({"virtio_pci", "virtio_console"});
  }
  const std::string device = FindVirtioPort(path_);
  if (device.empty()) return;
  fd_ = Fd(open(device.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd_.valid()) Say("cannot open %s: %s", device.c_str(), strerror(errno));
}

void Port::OpenDevice() {
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0) return;
  if (!S_ISSOCK(info.st_mode)) {
    fd_ = Fd(open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    return;
  }
  sockaddr_un address{};
  Fd fd = UnixSocket();
  if (!fd.valid() || !SocketAddress(path_, &address)) return;
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd.get(), generic, sizeof(address)) == 0) fd_ = std::move(fd);
}

void Port::Listen() {
  sockaddr_un address{};
  Fd fd = UnixSocket();
  if (!fd.valid() || !SocketAddress(path_, &address)) return;
  unlink(path_.c_str());
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (bind(fd.get(), generic, sizeof(address)) != 0 || listen(fd.get(), 1) != 0) {
    Say("cannot listen on %s: %s", path_.c_str(), strerror(errno));
    return;
  }
  listener_ = std::move(fd);
}

void Port::TryOpen() {
  retry_at_ = Now() + kRetry;
  switch (kind_) {
    case Kind::kVirtio:
      return OpenVirtio();
    case Kind::kDevice:
      return OpenDevice();
    case Kind::kListening:
      if (!listener_.valid()) return Listen();
      fd_ = Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
}

void Port::HostGone() {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0 || !S_ISCHR(info.st_mode)) Close();
}

void Port::Close() {
  fd_.Close();
  retry_at_ = Now() + kRetry;
}

}  // namespace satchel
