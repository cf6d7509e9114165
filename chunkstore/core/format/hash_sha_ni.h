// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// SHA-1 and SHA-256 of one or two blocks in step, with the CPU's SHA instructions (SHA-NI).
//
// Each of these instructions needs the result of the one before, and the CPU could begin another
// one meanwhile. OpenSSL computes one hash of one message, so most of that time is lost. Here the
// rounds of both hashes of a block alternate, or of two blocks: 1.5 and 2 times the speed
// (docs/results.md). More blocks than two do not fit into sixteen registers.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_SHA_NI_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_SHA_NI_H_

#include <cstdint>

#include "chunkstore/core/format/chunk_ref.h"

namespace satchel {

// Whether this CPU can. If not, the others must not be called.
bool HaveShaNi();

// The reference of the 4096 bytes at `block`.
ChunkRef HashShaNi(const uint8_t* block);

// *ref_a and *ref_b become those of the 4096 bytes at `a` and `b`.
void HashTwoShaNi(const uint8_t* a, const uint8_t* b, ChunkRef* ref_a, ChunkRef* ref_b);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_SHA_NI_H_
