// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// satchel-link --control FD: emulates links between network namespaces until FD, one end of a
// SOCK_SEQPACKET pair, is closed at the other end. Needs CAP_NET_ADMIN and CAP_SYS_ADMIN.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "testbed/link/emulator.h"

namespace {

// Guests that burn every core are the usual company, so packets go first. Without the right to
// real time, a better nice value; without that, as we are: accuracy suffers, nothing else.
void GoFirst() {
  prctl(PR_SET_TIMERSLACK, 1);
  sched_param parameters{};
  parameters.sched_priority = 1;
  if (sched_setscheduler(0, SCHED_RR, &parameters) != 0) setpriority(PRIO_PROCESS, 0, -15);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--control") != 0) {
    std::fprintf(stderr, "usage: satchel-link --control FD\n");
    return 2;
  }
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C reaches the whole group; our owner closes the links
  std::signal(SIGPIPE, SIG_IGN);
  GoFirst();
  satchel::link::Emulator emulator(std::atoi(argv[2]));
  return emulator.Run();
}
