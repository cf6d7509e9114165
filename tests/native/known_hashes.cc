// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// chunkstore/core/format/hash.h for programs that see the same few hundred blocks millions of
// times: the hashes of a block are computed once, and again only for bytes that differ from it. A
// program that has this among its sources does not get the engine's hash.cc out of the library.
#include <openssl/evp.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "chunkstore/core/format/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace satchel {
namespace {

struct KnownHash {
  uint8_t block[kBlockSize];
  ChunkRef ref;
};

constexpr size_t kMostKnown = 4096;

void Digest(const EVP_MD* md, const void* data, size_t n, uint8_t* out) {
  if (EVP_Digest(data, n, out, nullptr, md, nullptr) != 1) std::abort();
}

}  // namespace

bool IsZeroBlock(const uint8_t* block) {
  return block[0] == 0 && std::memcmp(block, block + 1, kBlockSize - 1) == 0;
}

// Two blocks with one checksum take turns: equal bytes alone make a block known.
ChunkRef HashBlock(const uint8_t* block) {
  thread_local std::unordered_map<uint64_t, std::unique_ptr<KnownHash>> table;
  std::unique_ptr<KnownHash>& known = table[XXH3_64bits(block, kBlockSize)];
  if (known != nullptr && std::memcmp(known->block, block, kBlockSize) == 0) return known->ref;
  auto made = std::make_unique<KnownHash>();
  std::memcpy(made->block, block, kBlockSize);
  Digest(EVP_sha1(), block, kBlockSize, made->ref.id());
  Digest(EVP_sha256(), block, kBlockSize, made->ref.digest());
  const ChunkRef ref = made->ref;
  known = std::move(made);
  if (table.size() > kMostKnown) table.clear();
  return ref;
}

ChunkRef NameBlock(const uint8_t* block) {
  return IsZeroBlock(block) ? kZeroRef : HashBlock(block);
}

void NameBlocks(const uint8_t* blocks, size_t n, ChunkRef* refs) {
  for (size_t i = 0; i < n; ++i) refs[i] = NameBlock(blocks + i * kBlockSize);
}

std::array<uint8_t, kDigestSize> Sha256(const void* data, size_t n) {
  std::array<uint8_t, kDigestSize> digest{};
  Digest(EVP_sha256(), data, n, digest.data());
  return digest;
}

uint64_t Checksum64(const void* data, size_t n) { return XXH3_64bits(data, n); }

}  // namespace satchel
