// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/branches.h"

#include <cstring>

#include "chunkstore/core/pack_format.h"

namespace satchel {
namespace {

constexpr uint32_t kBranchSize = 5;
constexpr uint32_t kLast = kBlockSize - kBranchSize;

bool IsBranch(const uint8_t* at) {
  return (at[0] & 0xfe) == 0xe8 && (at[4] == 0x00 || at[4] == 0xff);
}

// Adds modulo 2^25 and extends the sign.
void Add(uint8_t* at, uint32_t amount) {
  uint32_t value;
  std::memcpy(&value, at + 1, sizeof value);
  value = (value + amount) & 0x1ffffff;
  if ((value & 0x1000000) != 0) value |= 0xff000000;
  std::memcpy(at + 1, &value, sizeof value);
}

}  // namespace

void MakeBranchesAbsolute(uint8_t* block, unsigned slot) {
  const uint32_t base = slot * kBlockSize;
  for (uint32_t i = kLast + 1; i-- > 0;) {
    if (IsBranch(block + i)) Add(block + i, base + i);
  }
}

void MakeBranchesRelative(uint8_t* block, unsigned slot) {
  const uint32_t base = slot * kBlockSize;
  for (uint32_t i = 0; i <= kLast; ++i) {
    if (IsBranch(block + i)) Add(block + i, uint32_t{0} - (base + i));
  }
}

}  // namespace satchel
