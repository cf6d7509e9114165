// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/hash_sha_ni.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <array>

#include "chunkstore/core/format/sha_constants.h"

#define SATCHEL_SHA_NI __attribute__((target("sha,sse4.1")))
#define SATCHEL_SHA_NI_INLINE SATCHEL_SHA_NI inline __attribute__((always_inline))

namespace satchel {
namespace {

using Vector = __m128i;  // four 32-bit words

constexpr unsigned kPiece = 64;  // bytes
constexpr unsigned kSha1Steps = 20;
constexpr unsigned kSha256Steps = 16;  // of four rounds each

// What comes behind a message of one block: a bit, and its length in bits at the end.
constexpr std::array<uint8_t, kPiece> Padding() {
  std::array<uint8_t, kPiece> padding{};
  padding[0] = 0x80;
  padding[kPiece - 2] = (kBlockSize * 8) >> 8;
  return padding;
}

// Of one message. The order of words is what the instructions want, the last one named lowest.
struct Hashes {
  Vector abcd;  // SHA-1
  Vector e;     // in the highest word
  Vector abef;  // SHA-256
  Vector cdgh;
};

// The latest sixteen words of a message for each hash, word 4 i in w[i % 4]: in the lowest place
// for SHA-256, in the highest for SHA-1.
struct Schedule {
  Vector sha1[4];
  Vector sha256[4];
  Vector abcd;  // before the last step
};

SATCHEL_SHA_NI_INLINE Vector Words(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return _mm_set_epi32(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c),
                       static_cast<int>(d));
}

SATCHEL_SHA_NI_INLINE Vector Load(const void* from) {
  return _mm_loadu_si128(static_cast<const Vector*>(from));
}

SATCHEL_SHA_NI_INLINE void Start(Hashes* h) {
  h->abcd = Words(kSha1Start[0], kSha1Start[1], kSha1Start[2], kSha1Start[3]);
  h->e = Words(kSha1Start[4], 0, 0, 0);
  const uint32_t* const s = kSha256Start;
  h->abef = Words(s[0], s[1], s[4], s[5]);
  h->cdgh = Words(s[2], s[3], s[6], s[7]);
}

SATCHEL_SHA_NI_INLINE void Take(const uint8_t* piece, const Hashes& h, Schedule* s) {
  const Vector order = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  for (unsigned i = 0; i < 4; ++i) {
    s->sha256[i] = _mm_shuffle_epi8(Load(piece + i * sizeof(Vector)), order);
    s->sha1[i] = _mm_shuffle_epi32(s->sha256[i], 0x1b);
  }
  s->abcd = h.abcd;
}

template <unsigned kStep>
SATCHEL_SHA_NI_INLINE void Sha1Step(Schedule* s, Hashes* h) {
  Vector* const w = s->sha1;
  Vector& word = w[kStep % 4];
  if constexpr (kStep >= 4) {
    const Vector mixed =
        _mm_xor_si128(_mm_sha1msg1_epu32(word, w[(kStep + 1) % 4]), w[(kStep + 2) % 4]);
    word = _mm_sha1msg2_epu32(mixed, w[(kStep + 3) % 4]);
  }
  const Vector e = kStep == 0 ? _mm_add_epi32(h->e, word) : _mm_sha1nexte_epu32(s->abcd, word);
  s->abcd = h->abcd;
  h->abcd = _mm_sha1rnds4_epu32(h->abcd, e, kStep / 5);
}

template <unsigned kStep>
SATCHEL_SHA_NI_INLINE void Sha256Step(Schedule* s, Hashes* h) {
  Vector* const w = s->sha256;
  Vector& word = w[kStep % 4];
  if constexpr (kStep >= 4) {
    const Vector last = w[(kStep + 3) % 4];
    const Vector mixed = _mm_add_epi32(_mm_sha256msg1_epu32(word, w[(kStep + 1) % 4]),
                                       _mm_alignr_epi8(last, w[(kStep + 2) % 4], 4));
    word = _mm_sha256msg2_epu32(mixed, last);
  }
  const Vector sum = _mm_add_epi32(word, Load(kSha256Round + 4 * kStep));
  h->cdgh = _mm_sha256rnds2_epu32(h->cdgh, h->abef, sum);
  h->abef = _mm_sha256rnds2_epu32(h->abef, h->cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

// All rounds of kCount messages, taking turns.
template <unsigned kCount, unsigned kStep = 0>
SATCHEL_SHA_NI_INLINE void Rounds(Schedule* s, Hashes* h) {
  for (unsigned k = 0; k < kCount; ++k) Sha1Step<kStep>(s + k, h + k);
  if constexpr (kStep < kSha256Steps) {
    for (unsigned k = 0; k < kCount; ++k) Sha256Step<kStep>(s + k, h + k);
  }
  if constexpr (kStep + 1 < kSha1Steps) Rounds<kCount, kStep + 1>(s, h);
}

template <unsigned kCount>
SATCHEL_SHA_NI_INLINE void Digest(const uint8_t* const* pieces, Hashes* h) {
  Schedule s[kCount];
  Hashes before[kCount];
  for (unsigned k = 0; k < kCount; ++k) {
    before[k] = h[k];
    Take(pieces[k], h[k], &s[k]);
  }
  Rounds<kCount>(s, h);
  for (unsigned k = 0; k < kCount; ++k) {
    h[k].e = _mm_sha1nexte_epu32(s[k].abcd, before[k].e);
    h[k].abcd = _mm_add_epi32(h[k].abcd, before[k].abcd);
    h[k].abef = _mm_add_epi32(h[k].abef, before[k].abef);
    h[k].cdgh = _mm_add_epi32(h[k].cdgh, before[k].cdgh);
  }
}

// Big-endian, the first word first.
SATCHEL_SHA_NI_INLINE void Store(const Hashes& h, ChunkRef* ref) {
  const Vector reversed = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto put = [reversed](Vector words, uint8_t* out) SATCHEL_SHA_NI {
    _mm_storeu_si128(reinterpret_cast<Vector*>(out), _mm_shuffle_epi8(words, reversed));
  };
  put(h.abcd, ref->id());
  const auto e = static_cast<uint32_t>(_mm_extract_epi32(h.e, 3));
  const uint32_t swapped = __builtin_bswap32(e);
  __builtin_memcpy(ref->id() + sizeof(Vector), &swapped, sizeof swapped);
  put(_mm_unpackhi_epi64(h.cdgh, h.abef), ref->digest());
  put(_mm_unpacklo_epi64(h.cdgh, h.abef), ref->digest() + sizeof(Vector));
}

template <unsigned kCount>
SATCHEL_SHA_NI_INLINE void HashAll(const uint8_t* const* blocks, ChunkRef* const* refs) {
  Hashes h[kCount];
  for (unsigned k = 0; k < kCount; ++k) Start(&h[k]);
  const uint8_t* pieces[kCount];
  for (unsigned at = 0; at < kBlockSize; at += kPiece) {
    for (unsigned k = 0; k < kCount; ++k) pieces[k] = blocks[k] + at;
    Digest<kCount>(pieces, h);
  }
  static constexpr std::array<uint8_t, kPiece> kPadding = Padding();
  for (unsigned k = 0; k < kCount; ++k) pieces[k] = kPadding.data();
  Digest<kCount>(pieces, h);
  for (unsigned k = 0; k < kCount; ++k) Store(h[k], refs[k]);
}

}  // namespace

bool HaveShaNi() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
  return sha && __builtin_cpu_supports("sse4.1");
}

SATCHEL_SHA_NI ChunkRef HashShaNi(const uint8_t* block) {
  ChunkRef ref;
  ChunkRef* const refs[] = {&ref};
  HashAll<1>(&block, refs);
  return ref;
}

SATCHEL_SHA_NI void HashTwoShaNi(const uint8_t* a, const uint8_t* b, ChunkRef* ref_a,
                                 ChunkRef* ref_b) {
  const uint8_t* const blocks[] = {a, b};
  ChunkRef* const refs[] = {ref_a, ref_b};
  HashAll<2>(blocks, refs);
}

}  // namespace satchel

#else

#include <cstdlib>

namespace satchel {

bool HaveShaNi() { return false; }

ChunkRef HashShaNi(const uint8_t*) { std::abort(); }

void HashTwoShaNi(const uint8_t*, const uint8_t*, ChunkRef*, ChunkRef*) { std::abort(); }

}  // namespace satchel

#endif
