// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Power cuts at every place of a store's life, and during the recovery from them.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "chunkstore/core/media/media.h"
#include "chunkstore/core/os/workers.h"
#include "chunkstore/core/store/store.h"
#include "tests/native/explore.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

uint64_t Setting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// SATCHEL_CRASH_SEED is the life that is lived, and draws the states. In odd ones the store has its
// threads, as in a daemon; only the others are the same to the last operation each time.
// SATCHEL_CRASH_STATES is how many states, SATCHEL_CRASH_DIGESTS a file that gets 8 bytes of each.
TEST(CrashStates, NoAcknowledgedByteIsLostAndNoneIsWrong) {
  const uint64_t seed = Setting("SATCHEL_CRASH_SEED", 0);
  SimDisk disk(EmptyDisk());
  Promises promises;
  Workers::Inline(seed % 2 == 0);
  const Status status = RunAll(&disk, &promises, seed);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const Exploration found = Explore(disk, promises, seed, Setting("SATCHEL_CRASH_STATES", 2'000));
  for (const std::string& fault : found.faults) ADD_FAILURE() << fault;
  printf("%zu states, %lu of them in a recovery, at %lu places\n", found.states.size(), found.again,
         found.places);
  if (const char* path = std::getenv("SATCHEL_CRASH_DIGESTS")) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(found.states.data()),
               static_cast<std::streamsize>(found.states.size() * sizeof found.states[0]));
  }
}

// Few operations, so that they get more states than they do above.
TEST(CrashStates, AStoreAndAMediumThatAreBeingMadeOpenOrCanBeMadeAgain) {
  SimDisk disk(EmptyDisk());
  Promises promises;
  ASSERT_TRUE(Store::Create(&disk, kStorePath).ok());
  promises.store.from = disk.Position();
  ASSERT_TRUE(Media::Init(&disk, kMediaPath, "00000000-0000-4000-8000-000000000000").ok());
  promises.media.from = disk.Position();
  const Exploration found = Explore(disk, promises, 0, 2'000);
  for (const std::string& fault : found.faults) ADD_FAILURE() << fault;
  EXPECT_GT(found.states.size(), 100u);
}

// Whether the states would show it if the engine left out its syncs.
size_t FaultsOfPretending(bool files, bool folders, uint64_t life = 0) {
  SimDisk disk(EmptyDisk());
  disk.Pretend(files, folders);
  Promises promises;
  Workers::Inline(true);
  const Status status = RunAll(&disk, &promises, life);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return Explore(disk, promises, 0, 3'000).faults.size();
}

TEST(CrashStates, ADiskThatOnlyPretendsToSyncFilesIsFoundOut) {
  EXPECT_GT(FaultsOfPretending(true, false), 0u);
}

TEST(CrashStates, ADiskThatOnlyPretendsToSyncFoldersIsFoundOut) {
  EXPECT_GT(FaultsOfPretending(false, true), 0u);
}

// What was put onto the medium is there for who has its keys, and for nobody else.
TEST(CrashStates, InLivesTwoAndThreeTheMediumIsSealedAndGetsAnotherKey) {
  for (const uint64_t life : {2, 3}) {
    SimDisk disk(EmptyDisk());
    Promises promises;
    Workers::Inline(true);
    ASSERT_TRUE(RunAll(&disk, &promises, life).ok());
    ASSERT_EQ(promises.media_keys.size(), 2u);
    const auto generations = [&](Env* env) {
      std::unique_ptr<Media> media;
      EXPECT_TRUE(Media::Open(env, kMediaPath, &media).ok());
      return media->generations().size();
    };
    SealedEnv both(&disk, promises.media_keys);
    SealedEnv before(&disk, {promises.media_keys[1]});
    EXPECT_EQ(generations(&both), 2u);
    EXPECT_LT(generations(&before), 2u);
    EXPECT_EQ(generations(&disk), 0u);
  }
}

// With and without threads.
TEST(CrashStates, EveryLifeCanBeLived) {
  for (uint64_t life = 0; life < 100; ++life) {
    SimDisk disk(EmptyDisk());
    Promises promises;
    Workers::Inline(life % 2 == 0);
    const Status status = RunAll(&disk, &promises, life);
    EXPECT_TRUE(status.ok()) << "life " << life << ": " << status.ToString();
  }
}

TEST(CrashStates, ALifeWithoutThreadsIsTheSameEachTime) {
  Workers::Inline(true);
  std::string lives[2];
  for (std::string& life : lives) {
    SimDisk disk(EmptyDisk());
    Promises promises;
    ASSERT_TRUE(RunAll(&disk, &promises).ok());
    for (const Op& op : disk.Journal()) life += op.ToString() + "\n";
  }
  EXPECT_EQ(lives[0], lives[1]);
}

}  // namespace
}  // namespace satchel::sim
