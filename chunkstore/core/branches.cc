// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/branches.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <cstring>

#include "chunkstore/core/pack_format.h"

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

// The next place from `i` on that may begin an instruction with an address.
inline uint32_t SkipOthers(const uint8_t* block, uint32_t i) {
#ifdef __SSE2__
  const auto same = [](__m128i bytes, int mask, int value) {
    const __m128i masked = _mm_and_si128(bytes, _mm_set1_epi8(static_cast<char>(mask)));
    return _mm_cmpeq_epi8(masked, _mm_set1_epi8(static_cast<char>(value)));
  };
  for (; i + sizeof(__m128i) <= kBlockSize; i += sizeof(__m128i)) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
    const __m128i any = _mm_or_si128(_mm_or_si128(same(bytes, 0xfe, 0xe8), same(bytes, 0xf9, 0x89)),
                                     same(bytes, 0xff, 0x0f));
    const int found = _mm_movemask_epi8(any);
    if (found != 0) return i + static_cast<uint32_t>(__builtin_ctz(static_cast<unsigned>(found)));
  }
#else
  (void)block;
#endif
  return i;
}

// Adds modulo 2^25 and extends the sign.
inline void Add(uint8_t* address, uint32_t amount) {
  uint32_t value;
  std::memcpy(&value, address, sizeof value);
  value = (value + amount) & 0x1ffffff;
  if ((value & 0x1000000) != 0) value |= 0xff000000;
  std::memcpy(address, &value, sizeof value);
}

}  // namespace

void MakeBranchesAbsolute(uint8_t* block, unsigned slot) {
  const uint32_t base = slot * kBlockSize;
  for (uint32_t i = kBlockSize; i-- > 0;) {
    const uint32_t begin = FindAddress(block, i);
    if (begin != 0) Add(block + i + begin, base + i + begin + kAddressSize);
  }
}

void MakeBranchesRelative(uint8_t* block, unsigned slot) {
  const uint32_t base = slot * kBlockSize;
  for (uint32_t i = SkipOthers(block, 0); i < kBlockSize; i = SkipOthers(block, i + 1)) {
    const uint32_t begin = FindAddress(block, i);
    if (begin != 0) Add(block + i + begin, uint32_t{0} - (base + i + begin + kAddressSize));
  }
}

}  // namespace satchel
