// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/init.h"

#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>

#include "replay/agent/sys.h"

namespace satchel {
namespace {

struct Mount {
  const char* type;
  const char* where;
  unsigned long flags;
  const char* options;
};

constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV;
constexpr Mount kOwnFolder = {"tmpfs", "/run/satchel", kPlain, "mode=0755"};
constexpr const char* kKeptWithContent[] = {"/run", "/tmp"};
constexpr Mount kMounts[] = {
    {"proc", "/proc", kPlain | MS_NOEXEC, nullptr},
    {"sysfs", "/sys", kPlain | MS_NOEXEC, nullptr},
    {"devtmpfs", "/dev", MS_NOSUID, "mode=0755"},
    {"devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "mode=0620,ptmxmode=0666"},
    {"tmpfs", "/dev/shm", kPlain, "mode=1777"},
    {"tmpfs", "/run", kPlain, "mode=0755"},
    {"tmpfs", "/tmp", kPlain, "mode=1777"},
};

bool IsMountPoint(const char* path) {
  struct stat here {};
  struct stat above {};
  const std::string parent = std::string(path) + "/..";
  return stat(path, &here) == 0 && stat(parent.c_str(), &above) == 0 && here.st_dev != above.st_dev;
}

// True for /run or /tmp with something in it: the image of a container has made it for its service.
bool IsKept(const std::string& path) {
  if (std::find(std::begin(kKeptWithContent), std::end(kKeptWithContent), path) ==
      std::end(kKeptWithContent)) {
    return false;
  }
  DIR* folder = opendir(path.c_str());
  int entries = 0;
  while (folder != nullptr && entries <= 2 && readdir(folder) != nullptr) ++entries;
  if (folder != nullptr) closedir(folder);
  return entries > 2;  // "." and ".." are always there
}

void MountOne(const Mount& mounting) {
  mkdir(mounting.where, 0755);
  if (IsMountPoint(mounting.where) || IsKept(mounting.where)) return;
  if (mount(mounting.type, mounting.where, mounting.type, mounting.flags, mounting.options) != 0) {
    Say("cannot mount %s: %s", mounting.where, strerror(errno));
  }
}

void MountAll() {
  for (const Mount& mounting : kMounts) MountOne(mounting);
  // The agent's own files stay in memory and change no block of the disk.
  if (!IsMountPoint("/run")) MountOne(kOwnFolder);
}

void MakeRootWritable() {
  struct statvfs info {};
  if (statvfs("/", &info) != 0 || (info.f_flag & ST_RDONLY) == 0) return;
  if (mount(nullptr, "/", nullptr, MS_REMOUNT, nullptr) != 0) {
    Say("cannot make / writable: %s", strerror(errno));
  }
}

// devtmpfs has the devices, but not these, which udev would make.
void LinkStandardStreams() {
  constexpr const char* kLinks[][2] = {
      {"/proc/self/fd", "/dev/fd"},
      {"/proc/self/fd/0", "/dev/stdin"},
      {"/proc/self/fd/1", "/dev/stdout"},
      {"/proc/self/fd/2", "/dev/stderr"},
  };
  for (const auto& link : kLinks) {
    if (symlink(link[0], link[1]) != 0 && errno != EEXIST) {
      Say("cannot make %s: %s", link[1], strerror(errno));
    }
  }
}

// The kernel gives lo its 127.0.0.1 when it comes up.
void BringLoopbackUp() {
  Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!fd.valid() || ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) {
    Say("cannot bring lo up: %s", strerror(errno));
  }
}

// A service's user may listen at every port, also below 1024. Runtimes of containers allow it.
void OpenLowPorts() {
  Fd fd(open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC));
  if (!fd.valid() || write(fd.get(), "0", 1) != 1) {
    Say("cannot open low ports: %s", strerror(errno));
  }
}

void SetHostName() {
  std::string name = ReadSmallFile("/etc/hostname");
  name.resize(std::min(name.find('\n'), name.size()));
  if (!name.empty()) sethostname(name.c_str(), name.size());
}

// A kernel that found no /dev/console gives PID 1 no standard descriptors.
void OpenConsole() {
  if (fcntl(STDERR_FILENO, F_GETFD) != -1) return;
  const int fd = open("/dev/console", O_RDWR);
  if (fd < 0) return;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fd != standard) dup2(fd, standard);
  }
}

}  // namespace

void PrepareGuest() {
  umask(022);
  MakeRootWritable();
  MountAll();
  LinkStandardStreams();
  OpenConsole();
  BringLoopbackUp();
  OpenLowPorts();
  SetHostName();
}

void PowerOff() {
  kill(-1, SIGTERM);
  sleep(1);
  kill(-1, SIGKILL);
  sync();
  mount(nullptr, "/", nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
  reboot(RB_POWER_OFF);
  for (;;) pause();
}

}  // namespace satchel
