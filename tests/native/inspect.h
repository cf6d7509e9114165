// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether what is left on a disk keeps what was promised.
#ifndef SATCHEL_TESTS_NATIVE_INSPECT_H_
#define SATCHEL_TESTS_NATIVE_INSPECT_H_

#include <string>
#include <vector>

#include "tests/native/promises.h"
#include "tests/native/sim_disk.h"

namespace satchel::sim {

// Whether the index was rebuilt in the first `end` of these operations.
bool RebuildsIndex(const std::vector<Op>& journal, size_t end);

// How much is looked at. Opening the store, reading every promised chunk and volume, and writing to
// the store afterwards always are.
struct Depth {
  bool verify = true;   // verify finds nothing lost
  bool settle = true;   // all again after the store was settled
  bool reopen = true;   // all again after the store was closed and opened
  bool rebuild = true;  // all again after the index was rebuilt
  // A rebuild indexes whole records that nobody was promised, in a pack whose header a power cut
  // took: verify may find that afterwards. Whether there was one before the last power cut.
  bool rebuilt = false;
};

// Opens what is on `disk`, as a program does after a crash, and uses it. Promises made up to
// `position` have to be kept, every file of a name that can be seen has to lead to the whole
// volume, and nothing that is read may be wrong. What it stores itself it adds to `promises`, at
// positions of this disk. The first fault in words; empty if there is none.
std::string Inspect(SimDisk* disk, size_t position, const Depth& depth, Promises* promises);

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_INSPECT_H_
