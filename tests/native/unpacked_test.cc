// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What is kept of frames is what was in them, whoever reads, writes or dies meanwhile. Run under
// ThreadSanitizer as well.
#include "volumes/plugin/unpacked.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "chunkstore/core/os/env.h"
#include "tests/native/scratch.h"

namespace satchel::sim {
namespace {

using Block = std::array<uint8_t, kBlockSize>;

Location PlaceOf(uint32_t number) {
  return Location{1 + number / 1000, number * 64, FrameLength(5000),
                  static_cast<uint8_t>(number % 6)};
}

Block BlockOf(uint32_t number) {
  Block block;
  block.fill(static_cast<uint8_t>(number));
  std::memcpy(block.data(), &number, sizeof number);
  return block;
}

class UnpackedBlocks : public testing::Test {
 protected:
  static constexpr uint64_t kSlots = 64;

  void SetUp() override {
    ASSERT_TRUE(PosixEnv()->Open(path_, OpenMode::kCreate, &file_).ok());
    ASSERT_TRUE(file_->Truncate((kSlots + 2) * kBlockSize).ok());
    ASSERT_TRUE(Unpacked::Open(path_, &kept_).ok());
  }

  void Keep(uint32_t number) { kept_->Keep(PlaceOf(number), BlockOf(number).data()); }

  // Whether it is there; and if it is, it is right.
  static bool Has(Unpacked* kept, uint32_t number) {
    Block block;
    if (!kept->Find(PlaceOf(number), block.data())) return false;
    EXPECT_EQ(block, BlockOf(number));
    return true;
  }

  const Scratch scratch_;
  const std::string path_ = scratch_.path() + "/unpacked";
  std::unique_ptr<File> file_;
  std::unique_ptr<Unpacked> kept_;
};

TEST_F(UnpackedBlocks, AreFoundByTheirPlaceAlone) {
  Keep(3);
  EXPECT_TRUE(Has(kept_.get(), 3));
  EXPECT_FALSE(Has(kept_.get(), 4));
  Location other_slot = PlaceOf(3);
  ++other_slot.slot;
  Block block;
  EXPECT_FALSE(kept_->Find(other_slot, block.data()));
}

TEST_F(UnpackedBlocks, AreSharedByAllThatHaveTheFile) {
  std::unique_ptr<Unpacked> other;
  ASSERT_TRUE(Unpacked::Open(path_, &other).ok());
  Keep(3);
  EXPECT_TRUE(Has(other.get(), 3));
}

TEST_F(UnpackedBlocks, ThatAreReadOutliveThoseThatAreNot) {
  for (uint32_t number = 1; number < 2000; ++number) {
    Keep(0);  // harmless if it is there
    Keep(number);
    Has(kept_.get(), 0);
  }
  EXPECT_TRUE(Has(kept_.get(), 0));
  uint64_t there = 0;
  for (uint32_t number = 1; number < 2000; ++number) there += Has(kept_.get(), number);
  EXPECT_LT(there, kSlots);
  EXPECT_GT(there, kSlots / 2);
}

TEST_F(UnpackedBlocks, ThatWereDamagedAreNotServed) {
  Keep(3);
  const Block other = BlockOf(4);
  for (uint64_t slot = 0; slot < kSlots; ++slot) {
    ASSERT_TRUE(file_->WriteAt((slot + 1) * kBlockSize, other.data(), 1).ok());
  }
  EXPECT_FALSE(Has(kept_.get(), 3));
  Keep(3);
  EXPECT_TRUE(Has(kept_.get(), 3));
}

TEST_F(UnpackedBlocks, OfATableOfAnyBytesAreNotServed) {
  std::mt19937 random(7);
  std::string garbage(kBlockSize, '\0');
  for (char& byte : garbage) byte = static_cast<char>(random());
  ASSERT_TRUE(file_->WriteAt(0, garbage.data(), garbage.size()).ok());
  for (uint32_t number = 0; number < 1000; ++number) {
    EXPECT_FALSE(Has(kept_.get(), number));
    Keep(number);
    Has(kept_.get(), number);
  }
}

TEST_F(UnpackedBlocks, NeedRoomForOneSet) {
  ASSERT_TRUE(file_->Truncate(2 * kBlockSize).ok());
  std::unique_ptr<Unpacked> kept;
  EXPECT_TRUE(Unpacked::Open(path_, &kept).Is(Kind::kDamaged));
}

// Several threads, each with the file opened for itself as another process has it, keep and find
// more places than there are slots.
TEST_F(UnpackedBlocks, AreRightWhileManyKeepAndFind) {
  const auto work = [this](uint32_t seed) {
    std::unique_ptr<Unpacked> kept;
    ASSERT_TRUE(Unpacked::Open(path_, &kept).ok());
    std::mt19937 random(seed);
    uint64_t found = 0;
    for (int round = 0; round < 20000; ++round) {
      const auto number = static_cast<uint32_t>(random() % (2 * kSlots));
      if (Has(kept.get(), number)) {
        ++found;
      } else {
        kept->Keep(PlaceOf(number), BlockOf(number).data());
      }
    }
    EXPECT_GT(found, 0U);
  };
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace satchel::sim
