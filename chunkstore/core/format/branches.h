// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The relative addresses in x86-64 programs, made absolute and relative again, so that two calls of
// one function, or two uses of one variable, look alike to a compressor wherever they are made
// from. zstd has nothing of the kind; xz has it for calls and names it BCJ. It makes the frames of
// a Debian image 4 % smaller, and costs a reader of a block about a microsecond.
//
// What counts as an address are four bytes, the last of them 00 or FF, behind
//
//   E8, E9             call and jmp
//   0F 80 to 0F 8F     conditional jumps
//   89, 8B, 8D         mov and lea with a second byte of which the bits C7 are 05: relative to RIP
//
// They are a number of 25 bits with its sign, to which the place of the byte behind them is added
// modulo 2^25; so the last of them is 00 or FF again. Going from the back to the front, and back
// from the front to the back, each step finds the bytes as the step that it undoes left them,
// overlapping or not. It is therefore the inverse for any content, programs or not.
//
// Only within a block, so that each can be read by itself. `slot` is the place of the block in its
// frame: addresses in neighbours then agree on what is absolute.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_BRANCHES_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_BRANCHES_H_

#include <cstdint>

namespace satchel {

// Both change the 4096 bytes at `block`.
void MakeBranchesAbsolute(uint8_t* block, unsigned slot);
void MakeBranchesRelative(uint8_t* block, unsigned slot);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_BRANCHES_H_
