// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_TESTBED_LINK_TUN_H_
#define SATCHEL_TESTBED_LINK_TUN_H_

#include <string>

namespace satchel::link {

// A non-blocking TUN device (bare IP packets) made in the network namespace at the path
// `netns` (/run/netns/NAME), which the calling thread enters and leaves again. The device lives
// as long as the descriptor. Returns the descriptor, or -1 with `*error` saying what failed.
// If the thread cannot come back to its own namespace the process ends: it would otherwise go
// on in somebody else's.
int OpenTun(const std::string& netns, const std::string& interface, std::string* error);

}  // namespace satchel::link

#endif  // SATCHEL_TESTBED_LINK_TUN_H_
