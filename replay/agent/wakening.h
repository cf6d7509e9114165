// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What a machine that was frozen needs when it goes on, elsewhere or later: the time, and
// randomness that no other machine of the same checkpoint has.
#ifndef SATCHEL_REPLAY_AGENT_WAKENING_H_
#define SATCHEL_REPLAY_AGENT_WAKENING_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace satchel {

// Sets CLOCK_REALTIME, unless it is right already, and has the kernel make its randomness anew, of
// `entropy` too. False: *error says what was refused.
bool Waken(uint64_t time_ns, std::string_view entropy, std::string* error);

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_WAKENING_H_
