// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Goes through the states that power cuts could leave, and looks at each.
//
// A state is (place in the journal, number). Number 0 of a place is the disk with nothing that was
// not synced, 1 the disk with everything (a killed process); the others are drawn at random from a
// seed, which with place and number gives the same state again. SATCHEL_CRASH_STATE=PLACE:NUMBER
// runs that one alone, SATCHEL_CRASH_SEED=N another draw.
#ifndef SATCHEL_TESTS_NATIVE_EXPLORE_H_
#define SATCHEL_TESTS_NATIVE_EXPLORE_H_

#include <string>
#include <vector>

#include "tests/native/promises.h"
#include "tests/native/sim_disk.h"

namespace satchel::sim {

struct Exploration {
  uint64_t states = 0;              // that were looked at
  uint64_t again = 0;               // of them, power cuts during the recovery from another
  uint64_t places = 0;              // in the journal, at each of which some were made
  std::vector<std::string> faults;  // what was found, with what is needed to see it again
};

// About `states` of them, evenly over the places after `begin`, on all processors. Ends early once
// five faults are found.
Exploration Explore(const SimDisk& disk, const Promises& promises, size_t begin, uint64_t states);

// How many states a test is to look at: `states`, or a hundred times as many if SATCHEL_NIGHTLY is
// set.
uint64_t WantedStates(uint64_t states);

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_EXPLORE_H_
