// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Sealed files against a buffer that does the same in clear, and after a power cut. What is sealed,
// and that strangers do not read it, is looked at in tests/attacks and tests/chunkstore.
#include "chunkstore/core/media/sealed_env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/native/sim_disk.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

const std::string kPath = std::string(kMediaPath) + "/file";
constexpr SealKey kKey = {1, 2, 3};

std::string Bytes(Random* random, size_t n) {
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random->Next());
  return bytes;
}

// Mostly about a block's end, sometimes anywhere.
uint64_t Place(Random* random, uint64_t most) {
  const uint64_t near = random->Below(4) * kSealedContent + random->Below(33);
  const uint64_t place = random->Chance(60) ? near - std::min<uint64_t>(near, 16) : random->Next();
  return place % (most + 1);
}

void ExpectContent(File* file, const std::string& content, Random* random) {
  uint64_t size = 0;
  ASSERT_TRUE(file->Size(&size).ok());
  ASSERT_EQ(size, content.size());
  for (int i = 0; i < 3; ++i) {
    const uint64_t offset = i == 0 ? 0 : Place(random, size);
    std::string read(i == 0 ? size + 100 : Place(random, 300'000), '?');
    size_t got = 0;
    ASSERT_TRUE(file->ReadAt(offset, read.size(), read.data(), &got).ok());
    ASSERT_EQ(got, std::min<uint64_t>(read.size(), size - offset));
    ASSERT_EQ(read.substr(0, got), content.substr(offset, got));
  }
}

TEST(SealedEnv, AFileHasWhatWasWrittenWhateverTheOrder) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SimDisk disk(EmptyDisk());
    SealedEnv env(&disk, {kKey});
    std::unique_ptr<File> file;
    ASSERT_TRUE(env.Open(kPath, OpenMode::kCreate, &file).ok());
    std::string content;
    for (int step = 0; step < 40; ++step) {
      const uint64_t what = random.Below(10);
      if (what < 6) {
        const uint64_t offset = what < 4 ? content.size() : Place(&random, content.size());
        const std::string data =
            Bytes(&random, Place(&random, random.Chance(5) ? 400'000 : 20'000));
        ASSERT_TRUE(file->WriteAt(offset, data.data(), data.size()).ok());
        content.resize(std::max(content.size(), offset + data.size()));
        content.replace(offset, data.size(), data);
      } else if (what == 6) {
        content.resize(Place(&random, content.size()));
        ASSERT_TRUE(file->Truncate(content.size()).ok());
      } else if (what == 7) {
        ASSERT_TRUE(file->Sync().ok());
        EXPECT_EQ(disk.Live().Find(kPath)->data->size(),
                  content.empty() ? 0 : PaddedSize(content.size()));
        file.reset();
        ASSERT_TRUE(env.Open(kPath, OpenMode::kReadWrite, &file).ok());
      }
      ExpectContent(file.get(), content, &random);
      if (HasFatalFailure()) return;
    }
  }
}

// The blocks that were synced, and after that appended to: a power cut may leave of what is
// appended what it likes, and of what was synced all but the block that both share.
TEST(SealedEnv, APowerCutLeavesWhatWasSyncedUpToTheBlockThatIsWritten) {
  size_t torn = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    SimDisk disk(EmptyDisk());
    SealedEnv env(&disk, {kKey});
    std::unique_ptr<File> file;
    ASSERT_TRUE(env.Open(kPath, OpenMode::kCreate, &file).ok());
    const std::string synced = Bytes(&random, 1 + random.Below(30'000));
    ASSERT_TRUE(file->WriteAt(0, synced.data(), synced.size()).ok());
    ASSERT_TRUE(disk.SyncDir(kMediaPath).ok());
    ASSERT_TRUE(file->Sync().ok());
    const std::string more = Bytes(&random, 1 + random.Below(30'000));
    ASSERT_TRUE(file->WriteAt(synced.size(), more.data(), more.size()).ok());
    ASSERT_TRUE(file->Finish().ok());
    Durability walk(disk.base());
    for (const Op& op : disk.Journal()) walk.Advance(op);
    SimDisk left(walk.Crash(seed % 5, &random));
    SealedEnv reader(&left, {kKey});
    ASSERT_TRUE(reader.Open(kPath, OpenMode::kRead, &file).ok());
    std::string read(synced.size() + more.size(), '\0');
    size_t got = 0;
    ASSERT_TRUE(file->ReadAt(0, read.size(), read.data(), &got).ok());
    const size_t whole = synced.size() / kSealedContent * kSealedContent;
    ASSERT_GE(got, whole);
    EXPECT_EQ(read.substr(0, whole), synced.substr(0, whole));
    // Of each block behind it: what was written, or zeros; nothing that nobody wrote.
    const std::string written = synced + more;
    for (size_t at = whole; at < written.size(); at += kSealedContent) {
      const std::string part = read.substr(at, kSealedContent);
      const bool zeros = part.find_first_not_of('\0') == std::string::npos;
      const std::string before = synced.substr(std::min(at, synced.size()), kSealedContent);
      const bool old = part.compare(0, before.size(), before) == 0;
      torn += zeros ? 1 : 0;
      EXPECT_TRUE(zeros || part == written.substr(at, kSealedContent) || (old && !before.empty()))
          << "block at " << at << " of " << written.size() << ", synced " << synced.size();
    }
  }
  EXPECT_GT(torn, 20u);
}

TEST(SealedEnv, ABlockElsewhereIsNoBlock) {
  SimDisk disk(EmptyDisk());
  SealedEnv env(&disk, {kKey});
  std::unique_ptr<File> file;
  Random random(1);
  const std::string content = Bytes(&random, 3 * kSealedContent);
  ASSERT_TRUE(env.Open(kPath, OpenMode::kCreate, &file).ok());
  ASSERT_TRUE(file->WriteAt(0, content.data(), content.size()).ok());
  ASSERT_TRUE(file->Sync().ok());
  Image image = disk.Live();
  const std::string stored = *image.Find(kPath)->data;
  const std::string block = stored.substr(0, kSealedBlock);
  image.SetContent(kPath, std::string(stored).replace(kSealedBlock, kSealedBlock, block));
  SimDisk moved(image);
  SealedEnv reader(&moved, {kKey});
  ASSERT_TRUE(reader.Open(kPath, OpenMode::kRead, &file).ok());
  std::string read(content.size(), '?');
  size_t got = 0;
  ASSERT_TRUE(file->ReadAt(0, read.size(), read.data(), &got).ok());
  EXPECT_EQ(read.substr(0, kSealedContent), content.substr(0, kSealedContent));
  EXPECT_EQ(read.substr(kSealedContent, kSealedContent), std::string(kSealedContent, '\0'));
  EXPECT_EQ(read.substr(2 * kSealedContent), content.substr(2 * kSealedContent));
}

// As when a medium's key is changed: the packs before stay, what is new is nothing to the old key.
TEST(SealedEnv, WhatAnOlderKeyHasSealedIsReadAndWhatIsNewItDoesNotOpen) {
  constexpr SealKey kNew = {4, 5, 6};
  SimDisk disk(EmptyDisk());
  Random random(2);
  const std::string content = Bytes(&random, 3 * kSealedContent + 7);
  const auto write = [&](Env* env, const std::string& path) {
    std::unique_ptr<File> file;
    ASSERT_TRUE(env->Open(path, OpenMode::kCreate, &file).ok());
    ASSERT_TRUE(file->WriteAt(0, content.data(), content.size()).ok());
    ASSERT_TRUE(file->Sync().ok());
  };
  const auto read = [&](Env* env, const std::string& path) {
    std::unique_ptr<File> file;
    std::string found(content.size(), '?');
    size_t got = 0;
    EXPECT_TRUE(env->Open(path, OpenMode::kRead, &file).ok());
    EXPECT_TRUE(file->ReadAt(0, found.size(), found.data(), &got).ok());
    return found.substr(0, got);
  };
  const std::string newer = kPath + "-2";
  SealedEnv before(&disk, {kKey});
  SealedEnv after(&disk, {kNew, kKey});
  SealedEnv alone(&disk, {kNew});
  write(&before, kPath);
  write(&after, newer);
  EXPECT_EQ(read(&after, kPath), content);
  EXPECT_EQ(read(&after, newer), content);
  EXPECT_EQ(read(&alone, newer), content);
  EXPECT_EQ(read(&before, newer).find_first_not_of('\0'), std::string::npos);
}

}  // namespace
}  // namespace satchel::sim
