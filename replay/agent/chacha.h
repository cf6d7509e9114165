// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// ChaCha20 of an operation's seed and number: what programs draw, by whichever way (preload.cc,
// notifier.cc). Header only, as the preloaded library links nothing but libc.
#ifndef SATCHEL_REPLAY_AGENT_CHACHA_H_
#define SATCHEL_REPLAY_AGENT_CHACHA_H_

#include <string.h>

#include <cstddef>
#include <cstdint>

namespace satchel {

inline constexpr size_t kChachaBlock = 64;

inline uint32_t ChachaRotated(uint32_t value, int bits) {
  return value << bits | value >> (32 - bits);
}

inline void ChachaQuarterRound(uint32_t* s, int a, int b, int c, int d) {
  s[a] += s[b], s[d] = ChachaRotated(s[d] ^ s[a], 16);
  s[c] += s[d], s[b] = ChachaRotated(s[b] ^ s[c], 12);
  s[a] += s[b], s[d] = ChachaRotated(s[d] ^ s[a], 8);
  s[c] += s[d], s[b] = ChachaRotated(s[b] ^ s[c], 7);
}

// Writes block `count` (RFC 8439, 2.3), kChachaBlock bytes, whose key is seed and number, and 16
// bytes of 0.
inline void ChachaBlock(uint64_t seed, uint64_t number, uint64_t count, uint8_t* out) {
  uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  memcpy(start + 4, &seed, sizeof(seed));
  memcpy(start + 6, &number, sizeof(number));
  memcpy(start + 12, &count, sizeof(count));
  uint32_t state[16];
  memcpy(state, start, sizeof(state));
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) ChachaQuarterRound(state, i, 4 + i, 8 + i, 12 + i);
    for (int i = 0; i < 4; ++i) {
      ChachaQuarterRound(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
    }
  }
  for (int i = 0; i < 16; ++i) state[i] += start[i];
  memcpy(out, state, kChachaBlock);
}

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_CHACHA_H_
