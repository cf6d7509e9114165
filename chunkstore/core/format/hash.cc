// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/hash.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <cstring>

#include "chunkstore/core/format/hash_lanes.h"
#include "chunkstore/core/format/hash_sha_ni.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace satchel {
namespace {

// Fetching an algorithm costs more than hashing a block, so each is fetched once and never freed.
EVP_MD* Fetch(const char* name) {
  EVP_MD* md = EVP_MD_fetch(nullptr, name, nullptr);
  if (md == nullptr) std::abort();  // a libcrypto without SHA-1 or SHA-256 cannot run us
  return md;
}

struct HashContext {
  EVP_MD_CTX* sha1 = EVP_MD_CTX_new();
  EVP_MD_CTX* sha256 = EVP_MD_CTX_new();
  ~HashContext() {
    EVP_MD_CTX_free(sha1);
    EVP_MD_CTX_free(sha256);
  }
};

void Digest(EVP_MD_CTX* context, const EVP_MD* md, const uint8_t* block, uint8_t* out) {
  unsigned length = 0;
  if (EVP_DigestInit_ex2(context, md, nullptr) != 1 ||
      EVP_DigestUpdate(context, block, kBlockSize) != 1 ||
      EVP_DigestFinal_ex(context, out, &length) != 1) {
    std::abort();  // out of memory inside libcrypto: a wrong name must never be returned
  }
}

ChunkRef HashByOpenSsl(const uint8_t* block) {
  static const EVP_MD* const sha1 = Fetch("SHA1");
  static const EVP_MD* const sha256 = Fetch("SHA256");
  thread_local HashContext context;
  ChunkRef ref;
  Digest(context.sha1, sha1, block, ref.id());
  Digest(context.sha256, sha256, block, ref.digest());
  return ref;
}

bool UseShaNi() {
  static const bool have = HaveShaNi();
  return have;
}

bool UseLanes() {
  static const bool have = HaveHashLanes();
  return have;
}

// Sixteen lanes take as long as about so many blocks two by two.
constexpr unsigned kWorthLanes = 10;

// Names blocks[k] and puts it to refs[place[k]]; idle lanes repeat the first block.
void HashWaiting(const uint8_t* blocks[kHashLanes], const size_t* place, unsigned count,
                 ChunkRef* refs) {
  if (!UseLanes() || count < kWorthLanes) {
    unsigned k = 0;
    for (; UseShaNi() && k + 1 < count; k += 2) {
      HashTwoShaNi(blocks[k], blocks[k + 1], &refs[place[k]], &refs[place[k + 1]]);
    }
    for (; k < count; ++k) refs[place[k]] = HashBlock(blocks[k]);
    return;
  }
  for (unsigned k = count; k < kHashLanes; ++k) blocks[k] = blocks[0];
  ChunkRef names[kHashLanes];
  HashLanes(blocks, names);
  for (unsigned k = 0; k < count; ++k) refs[place[k]] = names[k];
}

}  // namespace

bool IsZeroBlock(const uint8_t* block) {
  // The first eight bytes are zero and every byte equals the one eight before it.
  uint64_t first;
  std::memcpy(&first, block, sizeof first);
  return first == 0 && std::memcmp(block, block + 8, kBlockSize - 8) == 0;
}

ChunkRef HashBlock(const uint8_t* block) {
  return UseShaNi() ? HashShaNi(block) : HashByOpenSsl(block);
}

ChunkRef NameBlock(const uint8_t* block) {
  return IsZeroBlock(block) ? kZeroRef : HashBlock(block);
}

void NameBlocks(const uint8_t* blocks, size_t n, ChunkRef* refs) {
  const uint8_t* waiting[kHashLanes];
  size_t place[kHashLanes];
  unsigned count = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* block = blocks + i * kBlockSize;
    refs[i] = kZeroRef;
    if (IsZeroBlock(block)) continue;
    waiting[count] = block;
    place[count++] = i;
    if (count < kHashLanes) continue;
    HashWaiting(waiting, place, count, refs);
    count = 0;
  }
  HashWaiting(waiting, place, count, refs);
}

std::array<uint8_t, kDigestSize> Sha256(const void* data, size_t n) {
  static const EVP_MD* const sha256 = Fetch("SHA256");
  std::array<uint8_t, kDigestSize> digest{};
  if (EVP_Digest(data, n, digest.data(), nullptr, sha256, nullptr) != 1) std::abort();
  return digest;
}

uint64_t Checksum64(const void* data, size_t n) { return XXH3_64bits(data, n); }

}  // namespace satchel
