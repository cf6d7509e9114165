// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// SHA-1 and SHA-256 of sixteen blocks at once, a block in each lane of 512-bit vectors.
//
// Blocks have equal sizes and do not depend on each other, so sixteen of them go through the rounds
// in step: word i of all sixteen is one vector. The words are loaded and turned into that shape
// once and serve both hashes. Against OpenSSL with the CPU's SHA instructions, block by block, that
// is more than twice the speed (docs/results.md); without AVX-512 it is slower,
// so there is no narrower version.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_LANES_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_LANES_H_

#include <cstdint>

#include "chunkstore/core/format/chunk_ref.h"

namespace satchel {

constexpr unsigned kHashLanes = 16;

// Whether this CPU can, and the system lets it. If not, HashLanes must not be called.
bool HaveHashLanes();

// refs[i] becomes the reference of the 4096 bytes at blocks[i].
void HashLanes(const uint8_t* const blocks[kHashLanes], ChunkRef refs[kHashLanes]);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_LANES_H_
