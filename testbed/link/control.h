// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The control protocol. One SOCK_SEQPACKET message is one request of words between single
// spaces, and gets one message back: `ok`, `ok WORDS`, or `error TEXT`.
//
//   add NAME LEAF-NETNS LEAF-INTERFACE CORE-NETNS CORE-INTERFACE SEED
//       makes both devices; NETNS are paths. The link is unlimited until `set`.
//   set NAME up|down RATE DELAY JITTER LOSS QUEUE STATE
//       one direction, `up` from leaf to core. RATE bit/s, DELAY and JITTER ns, LOSS 0..1,
//       QUEUE bytes, STATE 1 (carries packets) or 0 (loses them all).
//   stats NAME
//       ok PACKETS BYTES DROPS DROPPED-BYTES (up), the same four (down)
//   remove NAME
//       both devices are gone when the answer comes
//
// The peer is the process that started this one, and is trusted.
#ifndef SATCHEL_TESTBED_LINK_CONTROL_H_
#define SATCHEL_TESTBED_LINK_CONTROL_H_

#include <cstdint>
#include <string>

#include "testbed/link/emulator.h"

namespace satchel::link {

// Carries out one request and returns the answer.
std::string Answer(Emulator* emulator, const std::string& request, int64_t now);

}  // namespace satchel::link

#endif  // SATCHEL_TESTBED_LINK_CONTROL_H_
