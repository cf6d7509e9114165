// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/branches.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstring>

#include "chunkstore/core/format/pack_format.h"

namespace satchel {
namespace {

constexpr uint32_t kAddressSize = 4;

// By the first byte of an instruction: where its address begins, 0 if it has none. Those with two
// bytes before it have to have the right second byte, too.
constexpr std::array<uint8_t, 256> MakeKinds() {
  std::array<uint8_t, 256> kinds{};
  for (const int byte : {0xe8, 0xe9}) kinds[byte] = 1;
  for (const int byte : {0x0f, 0x89, 0x8b, 0x8d}) kinds[byte] = 2;
  return kinds;
}
constexpr std::array<uint8_t, 256> kKinds = MakeKinds();

// Where the address of the instruction at block[i] begins, from `i` on; 0: there is none.
inline uint32_t FindAddress(const uint8_t* block, uint32_t i) {
  const uint32_t begin = kKinds[block[i]];
  if (begin == 0 || i + begin + kAddressSize > kBlockSize) return 0;
  if (begin == 2) {
    const uint8_t second = block[i + 1];
    const bool right = block[i] == 0x0f ? (second & 0xf0) == 0x80 : (second & 0xc7) == 0x05;
    if (!right) return 0;
  }
  const uint8_t last = block[i + begin + kAddressSize - 1];
  return last == 0x00 || last == 0xff ? begin : 0;
}

// The places of a block that begin an instruction with an address, a bit for each.
class Candidates {
 public:
  explicit Candidates(const uint8_t* block) {
    uint32_t i = 0;
#ifdef __SSE2__
    for (; i + kFarthest + 64 <= kBlockSize; i += 64) {
      bits_[i / 64] = 0;
      if (!AnyEnds(block + i + kFarthest - 1)) continue;
      bits_[i / 64] = Sixteen(block + i) | Sixteen(block + i + 16) << 16 |
                      Sixteen(block + i + 32) << 32 | Sixteen(block + i + 48) << 48;
    }
#endif
    for (; i < kBlockSize; i += 64) {
      bits_[i / 64] = 0;
      for (uint32_t k = 0; k < 64; ++k) {
        bits_[i / 64] |= uint64_t{FindAddress(block, i + k) != 0} << k;
      }
    }
  }

  // The next one from `i` on; kBlockSize if there is none.
  uint32_t Next(uint32_t i) const {
    if (i >= kBlockSize) return kBlockSize;
    uint64_t word = bits_[i / 64] >> i % 64 << i % 64;
    for (i = i / 64 * 64; word == 0; word = bits_[i / 64]) {
      i += 64;
      if (i == kBlockSize) return i;
    }
    return i + static_cast<uint32_t>(__builtin_ctzll(word));
  }

  // The last one before `i`; kBlockSize if there is none.
  uint32_t Before(uint32_t i) const {
    while (i > 0) {
      const uint32_t first = (i - 1) / 64 * 64;
      const uint64_t word = bits_[first / 64] << (first + 64 - i) >> (first + 64 - i);
      if (word != 0) return first + 63 - static_cast<uint32_t>(__builtin_clzll(word));
      i = first;
    }
    return kBlockSize;
  }

  static constexpr uint32_t kFarthest = 1 + kAddressSize;  // bytes that an instruction goes on

 private:
#ifdef __SSE2__
  // Whether an address may end in any of these 65 bytes. In text and pictures hardly one does.
  static bool AnyEnds(const uint8_t* at) {
    const auto ends = [at](uint32_t skip) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + skip));
      return _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()),
                          _mm_cmpeq_epi8(bytes, _mm_set1_epi8(-1)));
    };
    const __m128i any = _mm_or_si128(_mm_or_si128(ends(0), ends(16)),
                                     _mm_or_si128(_mm_or_si128(ends(32), ends(48)), ends(49)));
    return _mm_movemask_epi8(any) != 0;
  }

  // FindAddress of sixteen places.
  static uint64_t Sixteen(const uint8_t* at) {
    const auto load = [at](uint32_t skip) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + skip));
    };
    const auto same = [](__m128i bytes, int mask, int value) {
      const __m128i masked = _mm_and_si128(bytes, _mm_set1_epi8(static_cast<char>(mask)));
      return _mm_cmpeq_epi8(masked, _mm_set1_epi8(static_cast<char>(value)));
    };
    const auto ends = [&](__m128i bytes) {
      return _mm_or_si128(same(bytes, 0xff, 0x00), same(bytes, 0xff, 0xff));
    };
    const __m128i first = load(0);
    const __m128i second = load(1);
    const __m128i jump = _mm_and_si128(same(first, 0xff, 0x0f), same(second, 0xf0, 0x80));
    const __m128i moves = _mm_andnot_si128(same(first, 0xff, 0x8f), same(first, 0xf9, 0x89));
    const __m128i move = _mm_and_si128(moves, same(second, 0xc7, 0x05));
    const __m128i two = _mm_and_si128(_mm_or_si128(jump, move), ends(load(kFarthest)));
    const __m128i one = _mm_and_si128(same(first, 0xfe, 0xe8), ends(load(kFarthest - 1)));
    return static_cast<uint64_t>(_mm_movemask_epi8(_mm_or_si128(one, two)));
  }
#endif

  uint64_t bits_[kBlockSize / 64];
};

// Adds modulo 2^25 and extends the sign.
inline void Add(uint8_t* address, uint32_t amount) {
  uint32_t value;
  std::memcpy(&value, address, sizeof value);
  value = static_cast<uint32_t>(static_cast<int32_t>((value + amount) << 7) >> 7);
  std::memcpy(address, &value, sizeof value);
}

}  // namespace

// From the last to the first. An address that is changed may make other instructions of those that
// begin before it and reach it: they are looked at anew. Before them the candidates are as they
// were.
void MakeBranchesAbsolute(uint8_t* block, unsigned slot) {
  const uint32_t base = slot * kBlockSize;
  const Candidates candidates(block);
  for (uint32_t i = candidates.Before(kBlockSize); i < kBlockSize;) {
    uint32_t last = i;  // that was changed
    for (uint32_t k = i + 1; k-- > 0 && k + Candidates::kFarthest >= last;) {
      const uint32_t begin = FindAddress(block, k);
      if (begin == 0) continue;
      Add(block + k + begin, base + k + begin + kAddressSize);
      last = k;
    }
    i = candidates.Before(last - std::min(last, Candidates::kFarthest));
  }
}

// An address that is changed may make other instructions of what its bytes belong to: those that
// begin before its end are looked at anew. Behind it the candidates are as they were.
void MakeBranchesRelative(uint8_t* block, unsigned slot) {
  const uint32_t base = slot * kBlockSize;
  const Candidates candidates(block);
  for (uint32_t i = candidates.Next(0); i < kBlockSize;) {
    uint32_t end = i + kKinds[block[i]] + kAddressSize;
    Add(block + end - kAddressSize, uint32_t{0} - (base + end));
    for (++i; i < end; ++i) {
      const uint32_t begin = FindAddress(block, i);
      if (begin == 0) continue;
      end = i + begin + kAddressSize;
      Add(block + end - kAddressSize, uint32_t{0} - (base + end));
    }
    i = candidates.Next(i);
  }
}

}  // namespace satchel
