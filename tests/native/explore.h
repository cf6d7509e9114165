// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Goes through the states that power cuts could leave, and looks at each.
//
// A state is what is on the disk, bit for bit. One that was looked at before is not looked at
// again, unless more is promised of it by now; it counts once all the same. It is made at a place
// in the journal by a number: 0 is the disk with nothing that was not synced, 1 the disk with
// everything (a killed process); the others are drawn at random from seed, place and number.
#ifndef SATCHEL_TESTS_NATIVE_EXPLORE_H_
#define SATCHEL_TESTS_NATIVE_EXPLORE_H_

#include <string>
#include <vector>

#include "tests/native/promises.h"
#include "tests/native/sim_disk.h"

namespace satchel::sim {

struct Exploration {
  std::vector<uint64_t> states;     // digests of the different ones that were looked at
  uint64_t again = 0;               // of them, left by power cuts during the recovery from another
  uint64_t places = 0;              // in the journal, at each of which some were made
  std::vector<std::string> faults;  // what was found, with what is needed to see it again
};

// At least `states` different ones, evenly over all places, on this thread. Fewer if there are no
// more, or once five faults are found. SATCHEL_CRASH_STATE=PLACE:NUMBER makes that one alone.
Exploration Explore(const SimDisk& disk, const Promises& promises, uint64_t seed, uint64_t states);

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_EXPLORE_H_
