// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The time for a machine that continues elsewhere or later, and randomness that no other machine of
// the same checkpoint has.
#ifndef SATCHEL_REPLAY_AGENT_WAKENING_H_
#define SATCHEL_REPLAY_AGENT_WAKENING_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace satchel {

// Sets CLOCK_REALTIME, unless it is right already, and has the kernel make its randomness anew, of
// `entropy` too. False: *error says what was refused.
bool Waken(uint64_t time_ns, std::string_view entropy, std::string* error);

// Has the kernel execute this thread before every other program of the guest, and keep its memory.
// A machine is resumed with the message of a wakening at its port, so on one processor no program
// executes before Waken. Threads and processes that start afterwards have no such right.
void ComeFirst();

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_WAKENING_H_
