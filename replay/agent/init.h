// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What PID 1 does before anything else.
#ifndef SATCHEL_REPLAY_AGENT_INIT_H_
#define SATCHEL_REPLAY_AGENT_INIT_H_

namespace satchel {

// Mounts /proc, /sys, /dev, /dev/pts, /dev/shm, /run and /tmp where nothing is mounted yet; the
// last two not if the image has something in them. Makes the root file system writable, brings the
// loopback interface up, sets the host name from /etc/hostname. Says on the console what does not
// work and continues: a guest without /dev/shm is better than none.
void PrepareGuest();

// Ends every process, writes the file systems back and switches the machine off.
[[noreturn]] void PowerOff();

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_INIT_H_
