// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The overlay's space is given back while the guest writes. Run under ThreadSanitizer as well.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chunkstore/core/os/env.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/sim_disk.h"
#include "volumes/plugin/nbdkit_api.h"
#include "volumes/plugin/volume.h"

// What the volume's client for absent blocks would call; here no block is absent.
extern "C" void nbdkit_error(const char*, ...) { FAIL(); }
extern "C" int nbdkit_nanosleep(unsigned, unsigned) { return -1; }

namespace satchel::sim {
namespace {

constexpr uint64_t kBlocks = 256;
constexpr auto kLongEnough = std::chrono::milliseconds(100);

// A file that has something done before it is punched.
class WatchedFile final : public ForwardingFile {
 public:
  WatchedFile(std::unique_ptr<File> file, const std::function<void()>* before_punch)
      : ForwardingFile(std::move(file)), before_punch_(before_punch) {}

  Status PunchHole(uint64_t offset, uint64_t length) override {
    if (*before_punch_) (*before_punch_)();
    return ForwardingFile::PunchHole(offset, length);
  }

 private:
  const std::function<void()>* const before_punch_;
};

class Reclaim : public testing::Test {
 protected:
  void SetUp() override {
    VolumeConfig config;
    config.name = "volume";
    config.size = kBlocks * kBlockSize;
    config.map_path = scratch_.path() + "/map";
    ASSERT_TRUE(BlockMap::Create(config.map_path, kBlocks, &map_).ok());
    std::unique_ptr<File> file;
    const std::string overlay = scratch_.path() + "/overlay";
    ASSERT_TRUE(PosixEnv()->Open(overlay, OpenMode::kCreate, &file).ok());
    ASSERT_TRUE(file->Truncate(config.size).ok());
    auto watched = std::make_unique<WatchedFile>(std::move(file), &before_punch_);
    overlay_ = watched.get();
    ASSERT_TRUE(Volume::Open(config, 0, std::move(watched), Sources{}, &volume_).ok());
    Write(0, kBlocks, 'a');
  }

  void Write(uint64_t block, uint64_t count, char letter) {
    const std::string data(count * kBlockSize, letter);
    ASSERT_TRUE(volume_->Write(block * kBlockSize, data.size(), data.data()).ok());
  }

  // As if a checkpoint had found that all of it is zero.
  void Commit() {
    for (uint64_t i = 0; i < kBlocks; ++i) map_->Replace(i, BlockState::kDirty, kZeroEntry);
  }

  std::string Read() {
    std::string content(kBlocks * kBlockSize, '?');
    EXPECT_TRUE(volume_->Read(0, content.size(), content.data()).ok());
    return content;
  }

  // Bytes for which the overlay has space.
  uint64_t Space() {
    uint64_t space = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    do {
      EXPECT_TRUE(overlay_->NextData(end, &begin, &end).ok());
      space += end - begin;
    } while (end > begin);
    return space;
  }

  const Scratch scratch_;
  std::function<void()> before_punch_;
  std::unique_ptr<BlockMap> map_;
  File* overlay_ = nullptr;
  std::unique_ptr<Volume> volume_;
};

TEST_F(Reclaim, AWriteThatComesWhileItsBlockIsGivenBackKeepsItsBytes) {
  Commit();
  std::future<void> writer;
  before_punch_ = [&] {
    if (writer.valid()) return;
    writer = std::async(std::launch::async, [this] { Write(5, 1, 'b'); });
    (void)writer.wait_for(kLongEnough);  // it gets as far as it can
  };
  ASSERT_TRUE(volume_->Reclaim().ok());
  ASSERT_TRUE(writer.valid());
  writer.get();
  std::string expected(kBlocks * kBlockSize, '\0');
  expected.replace(5 * kBlockSize, kBlockSize, kBlockSize, 'b');
  EXPECT_TRUE(Read() == expected);
  EXPECT_EQ(Space(), kBlockSize);
}

TEST_F(Reclaim, WhatIsDirtyStaysAndAllElseIsGivenBack) {
  ASSERT_TRUE(volume_->Reclaim().ok());
  EXPECT_EQ(Space(), kBlocks * kBlockSize);
  Commit();
  std::string expected(kBlocks * kBlockSize, '\0');
  for (const uint64_t block : {0, 15, 16, 17, 100, 255}) {
    Write(block, 1, 'd');
    expected.replace(block * kBlockSize, kBlockSize, kBlockSize, 'd');
  }
  ASSERT_TRUE(volume_->Reclaim().ok());
  EXPECT_EQ(Space(), 6 * kBlockSize);
  EXPECT_TRUE(Read() == expected);
}

TEST_F(Reclaim, TheThreadDoesWhatIsAskedForAndEndsWhenTheVolumeDoes) {
  std::promise<void> punched;
  before_punch_ = [&punched, first = true]() mutable {
    if (std::exchange(first, false)) punched.set_value();
  };
  ASSERT_TRUE(volume_->Start().ok());
  Commit();
  map_->AskForSpace();
  EXPECT_EQ(punched.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  volume_.reset();
}

TEST_F(Reclaim, WritesOfManyThreadsBesideItAreAllThere) {
  constexpr unsigned kWriters = 3;
  for (unsigned round = 0; round < 20; ++round) {
    Commit();
    std::vector<std::string> model(kBlocks, std::string(kBlockSize, '\0'));
    std::vector<std::thread> writers;
    for (unsigned writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([this, &model, writer, round] {
        Random random(round * kWriters + writer);
        for (int i = 0; i < 100; ++i) {
          const uint64_t block = random.Below(kBlocks / kWriters) * kWriters + writer;
          const uint64_t skip = random.Chance(50) ? 0 : random.Below(kBlockSize);
          const std::string data(kBlockSize - skip, static_cast<char>('a' + random.Below(26)));
          ASSERT_TRUE(volume_->Write(block * kBlockSize + skip, data.size(), data.data()).ok());
          model[block].replace(skip, data.size(), data);
        }
      });
    }
    ASSERT_TRUE(volume_->Reclaim().ok());
    for (std::thread& writer : writers) writer.join();
    std::string expected;
    for (const std::string& block : model) expected += block;
    ASSERT_TRUE(Read() == expected);
  }
}

}  // namespace
}  // namespace satchel::sim
