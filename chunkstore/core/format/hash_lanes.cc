// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/hash_lanes.h"

#if defined(__x86_64__)

// GCC 12 takes the "undefined" operand of its own intrinsics for a mistake of ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <immintrin.h>

#include "chunkstore/core/format/sha_constants.h"

#define SATCHEL_LANES __attribute__((target("avx512f,avx512bw")))
#define SATCHEL_LANES_INLINE SATCHEL_LANES inline __attribute__((always_inline))

namespace satchel {
namespace {

using Lanes = __m512i;  // one 32-bit word of each of the sixteen messages

constexpr unsigned kWords = 16;                          // of a 64-byte piece
constexpr unsigned kPieces = kBlockSize / (kWords * 4);  // of a block
constexpr uint32_t kPaddingBit = 0x80000000;             // the first word behind a message
constexpr uint32_t kMessageBits = kBlockSize * 8;        // the last one
// Truth tables for _mm512_ternarylogic_epi32.
constexpr int kXor = 0x96;
constexpr int kChoose = 0xca;
constexpr int kMajority = 0xe8;

SATCHEL_LANES_INLINE Lanes All(uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }
SATCHEL_LANES_INLINE Lanes Add(Lanes a, Lanes b) { return _mm512_add_epi32(a, b); }
SATCHEL_LANES_INLINE Lanes Xor(Lanes a, Lanes b, Lanes c) {
  return _mm512_ternarylogic_epi32(a, b, c, kXor);
}

SATCHEL_LANES_INLINE Lanes SwapBytes(Lanes words) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
  return _mm512_shuffle_epi8(words, order);
}

// Row i, the sixteen words of message i, against column i, word i of the sixteen messages.
SATCHEL_LANES_INLINE void Transpose(Lanes* m) {
  Lanes pairs[kWords];
  for (unsigned i = 0; i < kWords; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(m[i], m[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(m[i], m[i + 1]);
  }
  Lanes fours[kWords];  // fours[4 g + w]: word w of each quarter, of messages 4 g to 4 g + 3
  for (unsigned g = 0; g < kWords; g += 4) {
    fours[g] = _mm512_unpacklo_epi64(pairs[g], pairs[g + 2]);
    fours[g + 1] = _mm512_unpackhi_epi64(pairs[g], pairs[g + 2]);
    fours[g + 2] = _mm512_unpacklo_epi64(pairs[g + 1], pairs[g + 3]);
    fours[g + 3] = _mm512_unpackhi_epi64(pairs[g + 1], pairs[g + 3]);
  }
  for (unsigned w = 0; w < 4; ++w) {
    const Lanes a = _mm512_shuffle_i32x4(fours[w], fours[4 + w], 0x88);
    const Lanes b = _mm512_shuffle_i32x4(fours[w], fours[4 + w], 0xdd);
    const Lanes c = _mm512_shuffle_i32x4(fours[8 + w], fours[12 + w], 0x88);
    const Lanes d = _mm512_shuffle_i32x4(fours[8 + w], fours[12 + w], 0xdd);
    m[w] = _mm512_shuffle_i32x4(a, c, 0x88);
    m[4 + w] = _mm512_shuffle_i32x4(b, d, 0x88);
    m[8 + w] = _mm512_shuffle_i32x4(a, c, 0xdd);
    m[12 + w] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
}

template <unsigned kFrom, int kFunction>
SATCHEL_LANES_INLINE void Sha1Rounds(uint32_t constant, Lanes* w, Lanes* s) {
#pragma GCC unroll 20
  for (unsigned t = kFrom; t < kFrom + 20; ++t) {
    Lanes& word = w[t % kWords];
    if (t >= kWords) {
      word = _mm512_rol_epi32(_mm512_xor_si512(Xor(word, w[(t + 2) % kWords], w[(t + 8) % kWords]),
                                               w[(t + 13) % kWords]),
                              1);
    }
    const Lanes mixed = _mm512_ternarylogic_epi32(s[1], s[2], s[3], kFunction);
    const Lanes next =
        Add(Add(_mm512_rol_epi32(s[0], 5), mixed), Add(Add(s[4], All(constant)), word));
    s[4] = s[3];
    s[3] = s[2];
    s[2] = _mm512_rol_epi32(s[1], 30);
    s[1] = s[0];
    s[0] = next;
  }
}

SATCHEL_LANES void Sha1Piece(const Lanes* message, Lanes* state) {
  Lanes w[kWords];
  for (unsigned i = 0; i < kWords; ++i) w[i] = message[i];
  Lanes s[kSha1Words];
  for (unsigned i = 0; i < kSha1Words; ++i) s[i] = state[i];
  Sha1Rounds<0, kChoose>(0x5a827999, w, s);
  Sha1Rounds<20, kXor>(0x6ed9eba1, w, s);
  Sha1Rounds<40, kMajority>(0x8f1bbcdc, w, s);
  Sha1Rounds<60, kXor>(0xca62c1d6, w, s);
  for (unsigned i = 0; i < kSha1Words; ++i) state[i] = Add(state[i], s[i]);
}

SATCHEL_LANES_INLINE Lanes Sha256Word(const Lanes* w, unsigned t) {
  const Lanes x = w[(t + 1) % kWords];
  const Lanes y = w[(t + 14) % kWords];
  const Lanes low = Xor(_mm512_ror_epi32(x, 7), _mm512_ror_epi32(x, 18), _mm512_srli_epi32(x, 3));
  const Lanes high =
      Xor(_mm512_ror_epi32(y, 17), _mm512_ror_epi32(y, 19), _mm512_srli_epi32(y, 10));
  return Add(Add(w[t % kWords], low), Add(w[(t + 9) % kWords], high));
}

SATCHEL_LANES void Sha256Piece(const Lanes* message, Lanes* state) {
  Lanes w[kWords];
  for (unsigned i = 0; i < kWords; ++i) w[i] = message[i];
  Lanes s[kSha256Words];
  for (unsigned i = 0; i < kSha256Words; ++i) s[i] = state[i];
#pragma GCC unroll 64
  for (unsigned t = 0; t < 64; ++t) {
    if (t >= kWords) w[t % kWords] = Sha256Word(w, t);
    const Lanes e =
        Xor(_mm512_ror_epi32(s[4], 6), _mm512_ror_epi32(s[4], 11), _mm512_ror_epi32(s[4], 25));
    const Lanes chosen = _mm512_ternarylogic_epi32(s[4], s[5], s[6], kChoose);
    const Lanes one = Add(Add(Add(s[7], e), Add(chosen, All(kSha256Round[t]))), w[t % kWords]);
    const Lanes a =
        Xor(_mm512_ror_epi32(s[0], 2), _mm512_ror_epi32(s[0], 13), _mm512_ror_epi32(s[0], 22));
    const Lanes two = Add(a, _mm512_ternarylogic_epi32(s[0], s[1], s[2], kMajority));
    for (unsigned i = 7; i > 0; --i) s[i] = s[i - 1];
    s[4] = Add(s[4], one);
    s[0] = Add(one, two);
  }
  for (unsigned i = 0; i < kSha256Words; ++i) state[i] = Add(state[i], s[i]);
}

// Word i of lane k of the state goes to out + k * sizeof(ChunkRef) + 4 i, big-endian.
SATCHEL_LANES void Store(const Lanes* state, unsigned words, uint8_t* out) {
  const Lanes stride =
      _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                         All(sizeof(ChunkRef)));
  for (unsigned i = 0; i < words; ++i) {
    _mm512_i32scatter_epi32(out + 4 * i, stride, SwapBytes(state[i]), 1);
  }
}

}  // namespace

bool HaveHashLanes() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

SATCHEL_LANES void HashLanes(const uint8_t* const blocks[kHashLanes], ChunkRef refs[kHashLanes]) {
  Lanes sha1[kSha1Words];
  Lanes sha256[kSha256Words];
  for (unsigned i = 0; i < kSha1Words; ++i) sha1[i] = All(kSha1Start[i]);
  for (unsigned i = 0; i < kSha256Words; ++i) sha256[i] = All(kSha256Start[i]);
  Lanes message[kWords];
  for (unsigned piece = 0; piece < kPieces; ++piece) {
    for (unsigned lane = 0; lane < kHashLanes; ++lane) {
      message[lane] = SwapBytes(_mm512_loadu_si512(blocks[lane] + piece * sizeof(Lanes)));
    }
    Transpose(message);
    Sha1Piece(message, sha1);
    Sha256Piece(message, sha256);
  }
  message[0] = All(kPaddingBit);
  for (unsigned i = 1; i + 1 < kWords; ++i) message[i] = All(0);
  message[kWords - 1] = All(kMessageBits);
  Sha1Piece(message, sha1);
  Sha256Piece(message, sha256);
  Store(sha1, kSha1Words, refs[0].id());
  Store(sha256, kSha256Words, refs[0].digest());
}

}  // namespace satchel

#pragma GCC diagnostic pop

#else

#include <cstdlib>

namespace satchel {

bool HaveHashLanes() { return false; }

void HashLanes(const uint8_t* const*, ChunkRef*) { std::abort(); }

}  // namespace satchel

#endif
