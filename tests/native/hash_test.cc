// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Names of blocks, by whatever instructions this CPU has, against OpenSSL. A CPU has sixteen lanes,
// or the SHA instructions, or neither; how many blocks there are decides which of them is used.
#include "chunkstore/core/format/hash.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <random>
#include <string>
#include <vector>

namespace satchel {
namespace {

ChunkRef ByOpenSsl(const uint8_t* block) {
  ChunkRef ref;
  EXPECT_EQ(EVP_Digest(block, kBlockSize, ref.id(), nullptr, EVP_sha1(), nullptr), 1);
  EXPECT_EQ(EVP_Digest(block, kBlockSize, ref.digest(), nullptr, EVP_sha256(), nullptr), 1);
  return ref;
}

std::vector<uint8_t> Blocks(size_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  std::vector<uint8_t> blocks(n * kBlockSize);
  for (uint8_t& byte : blocks) byte = static_cast<uint8_t>(random());
  return blocks;
}

TEST(Hashes, OfOneBlock) {
  std::vector<uint8_t> block = Blocks(1);
  EXPECT_EQ(HashBlock(block.data()), ByOpenSsl(block.data()));
  for (const int byte : {0x00, 0x7f, 0x80, 0xff}) {
    std::fill(block.begin(), block.end(), static_cast<uint8_t>(byte));
    EXPECT_EQ(HashBlock(block.data()), ByOpenSsl(block.data())) << byte;
  }
}

TEST(Hashes, OfEveryBitOfABlock) {
  std::vector<uint8_t> block(kBlockSize);
  for (size_t bit = 0; bit < kBlockSize * 8; bit += 7) {
    block[bit / 8] ^= 1U << (bit % 8);
    ASSERT_EQ(HashBlock(block.data()), ByOpenSsl(block.data())) << bit;
  }
}

TEST(Hashes, OfAnyNumberOfBlocks) {
  for (size_t n = 0; n <= 40; ++n) {
    const std::vector<uint8_t> blocks = Blocks(n);
    std::vector<ChunkRef> refs(n);
    NameBlocks(blocks.data(), n, refs.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(refs[i], ByOpenSsl(blocks.data() + i * kBlockSize)) << i << " of " << n;
    }
  }
}

TEST(Hashes, OfBlocksWithZerosBetween) {
  for (size_t apart = 1; apart <= 20; ++apart) {
    std::vector<uint8_t> blocks = Blocks(50);
    for (size_t i = 0; i < 50; i += apart) {
      std::fill_n(blocks.begin() + static_cast<long>(i * kBlockSize), kBlockSize, uint8_t{0});
    }
    std::vector<ChunkRef> refs(50);
    NameBlocks(blocks.data(), 50, refs.data());
    for (size_t i = 0; i < 50; ++i) {
      const uint8_t* const block = blocks.data() + i * kBlockSize;
      ASSERT_EQ(refs[i], i % apart == 0 ? kZeroRef : ByOpenSsl(block)) << i << " by " << apart;
    }
  }
}

}  // namespace
}  // namespace satchel
