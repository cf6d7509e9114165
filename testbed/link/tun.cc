// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "testbed/link/tun.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace satchel::link {

namespace {

int Fail(const std::string& what, std::string* error) {
  *error = what + ": " + std::strerror(errno);
  return -1;
}

// In the namespace that the thread is in now.
int OpenTunHere(const std::string& interface, std::string* error) {
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return Fail("/dev/net/tun", error);
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd, TUNSETIFF, &request) < 0) {
    Fail("TUNSETIFF " + interface, error);
    close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

int OpenTun(const std::string& netns, const std::string& interface, std::string* error) {
  if (interface.empty() || interface.size() >= IFNAMSIZ) {
    errno = EINVAL;
    return Fail("interface name " + interface, error);
  }
  const int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  if (own < 0) return Fail("/proc/thread-self/ns/net", error);
  const int target = open(netns.c_str(), O_RDONLY | O_CLOEXEC);
  int fd = -1;
  if (target < 0) {
    Fail(netns, error);
  } else if (setns(target, CLONE_NEWNET) < 0) {
    Fail("setns " + netns, error);
  } else {
    fd = OpenTunHere(interface, error);
    if (setns(own, CLONE_NEWNET) < 0) {
      std::perror("satchel-link: setns back");
      std::abort();
    }
  }
  if (target >= 0) close(target);
  close(own);
  return fd;
}

}  // namespace satchel::link
