// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Power cuts at every place of a store's life, and during the recovery from them.
#include <gtest/gtest.h>

#include "chunkstore/core/media.h"
#include "chunkstore/core/store.h"
#include "tests/native/explore.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

TEST(CrashStates, NoAcknowledgedByteIsLostAndNoneIsWrong) {
  SimDisk disk(EmptyDisk());
  Promises promises;
  const Status status = RunAll(&disk, &promises);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const uint64_t wanted = WantedStates(20'000);
  const Exploration found = Explore(disk, promises, 0, wanted * 4 / 5);
  for (const std::string& fault : found.faults) ADD_FAILURE() << fault;
  RecordProperty("states", std::to_string(found.states));
  RecordProperty("places", std::to_string(found.places));
  printf("%lu states, %lu of them in a recovery, at %lu places\n", found.states, found.again,
         found.places);
}

// Few operations, so that they get more states than they do above.
TEST(CrashStates, AStoreAndAMediumThatAreBeingMadeOpenOrCanBeMadeAgain) {
  SimDisk disk(EmptyDisk());
  Promises promises;
  ASSERT_TRUE(Store::Create(&disk, kStorePath).ok());
  promises.store.from = disk.Position();
  ASSERT_TRUE(Media::Init(&disk, kMediaPath, "00000000-0000-4000-8000-000000000000").ok());
  promises.media.from = disk.Position();
  const Exploration found = Explore(disk, promises, 0, WantedStates(2'000));
  for (const std::string& fault : found.faults) ADD_FAILURE() << fault;
}

// Whether the states would show it if the engine left out its syncs.
size_t FaultsOfPretending(bool files, bool folders) {
  SimDisk disk(EmptyDisk());
  disk.Pretend(files, folders);
  Promises promises;
  const Status status = RunAll(&disk, &promises);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return Explore(disk, promises, 0, 3'000).faults.size();
}

TEST(CrashStates, ADiskThatOnlyPretendsToSyncFilesIsFoundOut) {
  EXPECT_GT(FaultsOfPretending(true, false), 0u);
}

TEST(CrashStates, ADiskThatOnlyPretendsToSyncFoldersIsFoundOut) {
  EXPECT_GT(FaultsOfPretending(false, true), 0u);
}

}  // namespace
}  // namespace satchel::sim
