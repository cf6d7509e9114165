// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Names of many blocks against names of one, with right, wrong and no guesses.
#include "chunkstore/core/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace satchel {
namespace {

// `n` blocks, each 13th of which is zero, and their names one by one.
struct Blocks {
  Blocks(size_t n, unsigned seed) : content(n * kBlockSize), names(n) {
    std::mt19937 dice(seed);
    for (size_t i = 0; i < n; ++i) {
      uint8_t* const block = &content[i * kBlockSize];
      if (i % 13 != 12) std::generate_n(block, kBlockSize, std::ref(dice));
      names[i] = NameBlock(block);
    }
  }

  std::vector<uint8_t> content;
  std::vector<ChunkRef> names;
};

std::vector<ChunkRef> Named(const Blocks& blocks, std::vector<ChunkRef> guesses) {
  NameGuessedBlocks(blocks.content.data(), guesses.size(), guesses.data());
  return guesses;
}

TEST(Hash, NoGuessChangesAName) {
  for (const size_t n : {1, 6, 7, 16, 17, 100, 256}) {
    const Blocks blocks(n, 1);
    const Blocks others(n, 2);
    EXPECT_EQ(Named(blocks, blocks.names), blocks.names);
    EXPECT_EQ(Named(blocks, others.names), blocks.names);
    EXPECT_EQ(Named(blocks, std::vector<ChunkRef>(n, kZeroRef)), blocks.names);
    std::vector<ChunkRef> refs(n, others.names[0]);
    NameBlocks(blocks.content.data(), n, refs.data());
    EXPECT_EQ(refs, blocks.names);
  }
}

TEST(Hash, OneWrongGuessChangesNoName) {
  const Blocks blocks(64, 1);
  for (size_t wrong = 0; wrong < 64; ++wrong) {
    std::vector<ChunkRef> guesses = blocks.names;
    guesses[wrong] = blocks.names[wrong == 0 ? 1 : 0];
    EXPECT_EQ(Named(blocks, guesses), blocks.names);
    guesses[wrong] = kZeroRef;
    EXPECT_EQ(Named(blocks, guesses), blocks.names);
  }
}

// The SHA-1 of a guess alone says nothing: two blocks may have it.
TEST(Hash, AGuessWithTheSameSha1IsWrong) {
  const Blocks blocks(64, 1);
  std::vector<ChunkRef> guesses = blocks.names;
  for (ChunkRef& guess : guesses) guess.digest()[kDigestSize - 1] ^= 1;
  EXPECT_EQ(Named(blocks, guesses), blocks.names);
}

}  // namespace
}  // namespace satchel
