// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The calls and jumps of x86 programs, made absolute and relative again, so that calls to one
// function look alike to a compressor wherever they are made from. zstd has nothing of the kind; xz
// calls it BCJ. It makes frames of a Debian image 2 % smaller.
//
// What counts as a branch: a byte E8 or E9, and four bytes later one that is 00 or FF. The four
// bytes between are a displacement of 25 bits with its sign, to which the place of the branch is
// added modulo 2^25; so the last of them is 00 or FF again. Going from the back to the front, and
// back from the front to the back, each step finds the bytes as the step that it undoes left them,
// overlapping or not. It is therefore the inverse for any content, programs or not.
//
// Only within a block, so that each can be read by itself. `slot` is the place of the block in its
// frame: branches of neighbours then agree on what is absolute.
#ifndef SATCHEL_CHUNKSTORE_CORE_BRANCHES_H_
#define SATCHEL_CHUNKSTORE_CORE_BRANCHES_H_

#include <cstdint>

namespace satchel {

// Both change the 4096 bytes at `block`.
void MakeBranchesAbsolute(uint8_t* block, unsigned slot);
void MakeBranchesRelative(uint8_t* block, unsigned slot);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_BRANCHES_H_
