// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of places against a plain map, through merges, and how much memory it takes.
#include "chunkstore/core/index/location_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <set>

namespace satchel {
namespace {

ChunkRef RefOf(uint32_t prefix) {
  ChunkRef ref = kZeroRef;
  for (int i = 0; i < 4; ++i) ref.id()[i] = static_cast<uint8_t>(prefix >> (24 - 8 * i));
  return ref;
}

Location At(uint32_t number) { return Location{1 + number % 100, number, 100, 0}; }

// One prefix in sixteen is shared by two chunks or more, and some upper halves have many.
uint32_t PrefixOf(uint32_t number) {
  const uint32_t mixed = (number - number % 16 / 15) * 0x9e3779b9u;
  return number % 3 == 0 ? (mixed & 0xffff) | 0xffff0000u : mixed;
}

class Model {
 public:
  void Add(uint32_t number) {
    table.Add(RefOf(PrefixOf(number)), At(number));
    there_[PrefixOf(number)].insert(number);
  }
  void Remove(uint32_t number) {
    table.Remove(RefOf(PrefixOf(number)), At(number));
    there_[PrefixOf(number)].erase(number);
  }
  void RemovePack(uint32_t pack) {
    table.RemovePack(pack);
    for (auto& [prefix, numbers] : there_) {
      for (auto it = numbers.begin(); it != numbers.end();) {
        it = At(*it).pack == pack ? numbers.erase(it) : std::next(it);
      }
    }
  }
  void Check(uint32_t number) const {
    Location at[LocationTable::kMaxCandidates];
    const unsigned count = table.Find(RefOf(PrefixOf(number)), at);
    std::set<uint32_t> found;
    for (unsigned i = 0; i < count; ++i) found.insert(at[i].offset);
    ASSERT_EQ(found.size(), count) << number;
    const auto expected = there_.find(PrefixOf(number));
    ASSERT_EQ(found, expected == there_.end() ? std::set<uint32_t>() : expected->second) << number;
  }

  LocationTable table;

 private:
  std::map<uint32_t, std::set<uint32_t>> there_;
};

TEST(LocationTable, FindsWhatWasAddedAndNotRemovedThroughMerges) {
  constexpr uint32_t kCount = 300'000;
  Model model;
  std::mt19937 dice(20261122);
  for (uint32_t number = 0; number < kCount; ++number) {
    model.Add(number);
    if (number % 7 == 0) model.Remove(dice() % (number + 1));
    if (number % 90'001 == 90'000) model.RemovePack(number % 100);
    if (number % 50 == 0) model.Check(dice() % (number + 1));
  }
  for (uint32_t number = 0; number < kCount + 1'000; ++number) model.Check(number);
}

// A small store's do without the sorted part, of a large one only the first few.
TEST(LocationTable, FindsWhatWasLoadedAndWhatIsAddedThen) {
  for (const uint32_t count : {0u, 1u, 500u, 2'047u, 2'048u, 2'049u, 100'000u}) {
    LocationTable table;
    for (uint32_t number = 0; number < count; ++number) {
      table.Load(LocationTable::EntryOf(RefOf(number << 14), At(number)));
    }
    table.Seal();
    for (uint32_t number = count; number < count + 70'000; ++number) {
      table.Add(RefOf(number << 14), At(number));
    }
    table.Remove(RefOf(0), At(0));
    EXPECT_EQ(table.size(), count + 70'000) << count;
    for (uint32_t number = 0; number < count + 70'000; ++number) {
      Location at[LocationTable::kMaxCandidates];
      ASSERT_EQ(table.Find(RefOf(number << 14), at), number == 0 ? 0u : 1u) << number;
      ASSERT_TRUE(number == 0 || at[0].offset == number);
    }
  }
}

// Of this process, in bytes.
size_t Resident() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  size_t all = 0;
  size_t resident = 0;
  EXPECT_EQ(std::fscanf(file, "%zu %zu", &all, &resident), 2);
  std::fclose(file);
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(LocationTable, TakesTenBytesAChunkAndLittleBeside) {
  constexpr uint32_t kCount = 4 << 20;
  const size_t before = Resident();
  LocationTable table;
  size_t most = 0;
  for (uint32_t number = 0; number < kCount; ++number) {
    table.Add(RefOf(number * 0x9e3779b9u), At(number));
    if (number % (1 << 16) == 0) most = std::max(most, Resident() - before);
  }
  most = std::max(most, Resident() - before);
  EXPECT_EQ(table.size(), kCount);
  EXPECT_LT(most, 10 * size_t{kCount} + (size_t{14} << 20));
}

}  // namespace
}  // namespace satchel
