// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Names of blocks. All functions are pure and may be called from any thread.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "chunkstore/core/format/chunk_ref.h"

namespace satchel {

// Whether the 4096 bytes at `block` are all zero.
bool IsZeroBlock(const uint8_t* block);

// SHA-1 and SHA-256 of the 4096 bytes at `block`. Does not treat the zero block specially.
ChunkRef HashBlock(const uint8_t* block);

// kZeroRef for the zero block, else HashBlock.
ChunkRef NameBlock(const uint8_t* block);

// NameBlock of each of the `n` blocks that lie one behind the other; faster than one by one.
void NameBlocks(const uint8_t* blocks, size_t n, ChunkRef* refs);

// SHA-256 of `n` bytes.
std::array<uint8_t, kDigestSize> Sha256(const void* data, size_t n);

// XXH3-64 of `n` bytes: guards against accidents, not against enemies.
uint64_t Checksum64(const void* data, size_t n);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_HASH_H_
