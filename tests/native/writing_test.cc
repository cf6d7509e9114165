// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// An import or a checkpoint, and a disk that is slow, takes nothing for a while, or fails while
// others compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/format/record.h"
#include "chunkstore/core/store/store.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "chunkstore/core/volume/ingest.h"
#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

constexpr uint64_t kMega = 1 << 20;

// A file of which each write and sync (0 bytes) is `before` it is done. One through the page cache
// costs the time when the system begins to write it, as the cache takes it at once.
class WatchedFile final : public ForwardingFile {
 public:
  using Before = std::function<Status(size_t bytes)>;

  WatchedFile(std::unique_ptr<File> file, const Before& before)
      : ForwardingFile(std::move(file)), before_(before) {}

  Status WriteAt(uint64_t offset, const void* data, size_t n) override {
    return ForwardingFile::WriteAt(offset, data, n);
  }
  Status WriteUncached(uint64_t offset, const void* data, size_t n) override {
    SATCHEL_RETURN_IF_ERROR(before_(n));
    return ForwardingFile::WriteAt(offset, data, n);
  }
  void StartWriting(uint64_t, uint64_t length, uint64_t) override { (void)before_(length); }
  Status Sync() override {
    SATCHEL_RETURN_IF_ERROR(before_(0));
    return ForwardingFile::Sync();
  }

 private:
  const Before& before_;
};

// Whose packs are such files, with room for all that is stored.
class WatchedDisk final : public ForwardingEnv {
 public:
  explicit WatchedDisk(WatchedFile::Before before) : before_(std::move(before)) {}

  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override {
    SATCHEL_RETURN_IF_ERROR(ForwardingEnv::Open(path, mode, file));
    if (path.find("/packs/") == std::string::npos) return {};
    *file = std::make_unique<WatchedFile>(std::move(*file), before_);
    return {};
  }
  Status FreeBytes(const std::string&, uint64_t* bytes) override {
    *bytes = uint64_t{1} << 40;
    return {};
  }

 private:
  const WatchedFile::Before before_;
};

// Content that says how much of it was read.
class CountedSource final : public BlockSource {
 public:
  explicit CountedSource(const std::string& content)
      : source_(MemorySource(reinterpret_cast<const uint8_t*>(content.data()), content.size())) {}

  uint64_t size() const override { return source_->size(); }
  Status Read(uint64_t first, uint32_t count, uint8_t* out) override {
    read += uint64_t{count} * kBlockSize;
    return source_->Read(first, count, out);
  }
  Status NextData(uint64_t first, uint64_t* begin, uint64_t* end) override {
    return source_->NextData(first, begin, end);
  }

  std::atomic<uint64_t> read{0};

 private:
  const std::unique_ptr<BlockSource> source_;
};

std::string Noise(uint64_t seed, uint64_t bytes) {
  std::mt19937_64 random(seed);
  std::string content(bytes, '\0');
  auto* const words = reinterpret_cast<uint64_t*>(content.data());
  std::generate_n(words, bytes / sizeof *words, std::ref(random));
  return content;
}

class Writing : public testing::Test {
 protected:
  // A store that stores raw, on a disk that calls `before`.
  void Open(WatchedFile::Before before, ChunkOptions options = {}) {
    env_ = std::make_unique<WatchedDisk>(std::move(before));
    ASSERT_TRUE(Store::Create(env_.get(), path()).ok());
    options.level = 0;
    ASSERT_TRUE(Store::Open(env_.get(), path(), options, &store_).ok());
  }

  void ExpectWhole(const TableRoot& root, const std::string& content) {
    std::string back(content.size(), '\0');
    EXPECT_TRUE(store_->Read(root, 0, back.size(), reinterpret_cast<uint8_t*>(back.data())).ok());
    EXPECT_TRUE(back == content);
  }

  uint64_t PackBytes() const {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path() + "/packs")) {
      bytes += entry.file_size();
    }
    return bytes;
  }

  std::string path() const { return scratch_.path() + "/store"; }

  const Scratch scratch_;
  std::unique_ptr<WatchedDisk> env_;
  std::unique_ptr<Store> store_;
};

TEST_F(Writing, AnImportOntoASlowDiskCompressesAndSaysSo) {
  Open([](size_t bytes) {  // 20 to 30 times as long as compressing takes
    std::this_thread::sleep_for(std::chrono::nanoseconds(bytes * 100));
    return Status();
  });
  const std::string content = MakeContent(1, 64 * kMega / kBlockSize);
  CountedSource source(content);
  TableRoot root;
  Stored stored;
  ASSERT_TRUE(store_->Import(&source, nullptr, nullptr, &root, &stored).ok());
  ExpectWhole(root, content);
  const uint64_t raw = 64 * kMega / 10 * 8;  // the rest are zeros
  EXPECT_LT(PackBytes(), raw * 8 / 10);
  EXPECT_GT(PackBytes(), raw / 4);  // the first of them were written as they are
  EXPECT_GT(stored[0].chunks, 0u);
  EXPECT_GT(stored.size(), 1u);
  EXPECT_EQ(stored[0].bytes, stored[0].chunks * (kRecordHeaderSize + kBlockSize));
  Chunks::Added sum;
  for (const auto& each : stored) {
    sum = {sum.chunks + each.second.chunks, sum.bytes + each.second.bytes};
  }
  StoreStats stats;
  ASSERT_TRUE(store_->Stats(&stats).ok());
  const uint64_t pages = stats.chunks - sum.chunks;
  EXPECT_GE(pages, 64 * kMega / kBlockSize / kPageFanout);
  EXPECT_LE(pages, 64 * kMega / kBlockSize / kPageFanout * 2);
  EXPECT_LT(sum.bytes, stats.live_bytes);
  EXPECT_GT(sum.bytes + pages * (kRecordHeaderSize + kBlockSize) + kMega, stats.live_bytes);
}

// Its records are read soon, so they go through the page cache. It is no slower for that than the
// disk, and compresses as an import does.
TEST_F(Writing, ACheckpointOntoASlowDiskCompresses) {
  Open([](size_t bytes) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(bytes * 100));
    return Status();
  });
  const uint64_t blocks = 64 * kMega / kBlockSize;
  const std::string content = MakeContent(6, blocks);
  std::unique_ptr<File> overlay;
  ASSERT_TRUE(PosixEnv()->Open(scratch_.path() + "/overlay", OpenMode::kCreate, &overlay).ok());
  ASSERT_TRUE(overlay->WriteAt(0, content.data(), content.size()).ok());
  std::unique_ptr<BlockMap> map;
  ASSERT_TRUE(BlockMap::Create(scratch_.path() + "/map", blocks, &map).ok());
  for (uint64_t block = 0; block < blocks; ++block) map->MarkDirty(block);
  TableRoot root;
  root.size = content.size();
  TableRoot made;
  ASSERT_TRUE(store_->Commit(root, map.get(), overlay.get(), &made).ok());
  ASSERT_TRUE(store_->Sync().ok());
  ExpectWhole(made, content);
  const uint64_t raw = 64 * kMega / 10 * 8;
  EXPECT_LT(PackBytes(), raw * 8 / 10);
  EXPECT_GT(PackBytes(), raw / 4);
}

// A cache: 32 records at a time, of which 64 make a sync.
TEST_F(Writing, RecordsThatArriveDuringALongSyncStayAsTheyCame) {
  constexpr size_t kTogether = 32;
  std::atomic<bool> syncing{false};
  std::atomic<bool> done{false};
  ChunkOptions options;
  options.max_pending = 2 * kTogether;
  Open(
      [&](size_t bytes) {
        if (bytes > 0) return Status();
        syncing = true;
        while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return Status();
      },
      options);
  const auto await_sync = [&] {
    while (!syncing) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::vector<ChunkRef> refs;
  uint64_t sizes[4];
  for (uint64_t& size : sizes) {
    const uint64_t before = PackBytes();
    std::string records;
    for (size_t i = 0; i < kTogether; ++i) {
      std::string block(kBlockSize, 'a');
      block.replace(0, 8, std::to_string(10000000 + refs.size() + i));
      const ChunkRef ref = NameBlock(reinterpret_cast<const uint8_t*>(block.data()));
      (void)AppendRecord(ref, reinterpret_cast<const uint8_t*>(block.data()), 1, &records);
    }
    const auto* const data = reinterpret_cast<const uint8_t*>(records.data());
    ASSERT_TRUE(store_->Admit(data, records.size(), &refs).ok());
    size = PackBytes() - before;
    if (refs.size() == 2 * kTogether) await_sync();
  }
  done = true;
  EXPECT_GT(sizes[1], kTogether * kBlockSize);
  EXPECT_GT(sizes[2], kTogether * kBlockSize);
  EXPECT_LT(sizes[3], kTogether * kBlockSize / 4);
  ASSERT_TRUE(store_->Sync().ok());
  EXPECT_EQ(refs.size(), 4 * kTogether);
}

// Were it written by who computes, both would wait for the first piece, and it for them.
TEST_F(Writing, ProcessorsGoOnWhileTheDiskTakesNothing) {
  const std::string content = Noise(1, 40 * kMega);
  CountedSource source(content);
  std::atomic<bool> in_time{true};
  Open([&](size_t bytes) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (in_time && bytes >= kMega / 2 && source.read < 7 * kMega) {
      in_time = std::chrono::steady_clock::now() < until;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status();
  });
  TableRoot root;
  ASSERT_TRUE(store_->Import(&source, nullptr, nullptr, &root).ok());
  EXPECT_TRUE(in_time);
  ExpectWhole(root, content);
}

TEST_F(Writing, WhatWaitsInMemoryIsBounded) {
  const std::string content = Noise(2, 96 * kMega);
  CountedSource source(content);
  std::atomic<uint64_t> written{0};
  std::atomic<uint64_t> most{0};
  Open([&](size_t bytes) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(bytes * 10));
    const uint64_t read = source.read;
    const uint64_t waiting = read - std::min<uint64_t>(read, written);
    if (waiting > most) most = waiting;
    written += bytes;
    return Status();
  });
  TableRoot root;
  ASSERT_TRUE(store_->Import(&source, nullptr, nullptr, &root).ok());
  EXPECT_GE(written, content.size());
  EXPECT_LE(most, 24 * kMega);  // 8 in the queue, and what each processor is at
}

// The first that could not be written is in the way of no import after it, and is not lost.
TEST_F(Writing, AnImportIsToldWhatCouldNotBeWrittenBehindIt) {
  std::atomic<bool> full{false};
  std::atomic<uint64_t> written{0};
  Open([&](size_t bytes) {
    if (full && written > 8 * kMega) {
      return Status::Make(Kind::kFull, "cannot write a pack", "for a test");
    }
    written += bytes;
    return Status();
  });
  const std::string content = Noise(3, 64 * kMega);
  CountedSource source(content);
  TableRoot root;
  full = true;
  const Status told = store_->Import(&source, nullptr, nullptr, &root);
  EXPECT_TRUE(told.Is(Kind::kFull)) << told.ToString();
  EXPECT_LT(source.read, content.size());  // it was told while it went on
  EXPECT_TRUE(store_->Sync().Is(Kind::kFull));
  full = false;  // what was told is the error of nobody else
  const Status again = store_->Import(&source, nullptr, nullptr, &root);
  ASSERT_TRUE(again.ok()) << again.ToString();
  ExpectWhole(root, content);
  VerifyReport report;
  ASSERT_TRUE(store_->Verify(nullptr, &report).ok());
  EXPECT_TRUE(report.bad.empty());
  EXPECT_TRUE(report.dangling.empty());
  EXPECT_EQ(report.unclaimed, 0u);
}

// A write that began for one import and fails during the next one is not that one's error.
TEST_F(Writing, AnImportIsNotToldWhatCouldNotBeWrittenBeforeIt) {
  const std::string content = Noise(7, 16 * kMega);
  CountedSource source(content);
  CountedSource again(content);
  std::atomic<int> failing{2};
  Open([&](size_t bytes) {
    const int mine = bytes > 0 ? failing-- : 0;
    if (mine <= 0) return Status();
    while (mine == 2 && again.read == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status::Make(Kind::kFull, "cannot write a pack", "for a test");
  });
  TableRoot root;
  EXPECT_TRUE(store_->Import(&source, nullptr, nullptr, &root).Is(Kind::kFull));
  const Status told = store_->Import(&again, nullptr, nullptr, &root);
  ASSERT_TRUE(told.ok()) << told.ToString();
  ExpectWhole(root, content);
  EXPECT_TRUE(store_->Sync().ok());
}

TEST_F(Writing, AnImportThatIsStoppedLeavesTheStoreAsItWasAcknowledged) {
  Open([](size_t) { return Status(); });
  const std::string content = Noise(4, 32 * kMega);
  CountedSource first(content);
  TableRoot root;
  ASSERT_TRUE(store_->Import(&first, nullptr, nullptr, &root).ok());
  const uint64_t before = PackBytes();
  const std::string other = Noise(5, 64 * kMega);
  CountedSource second(other);
  const auto stop = [&](uint64_t done, uint64_t) { return done < 16 * kMega; };
  TableRoot lost;
  EXPECT_TRUE(store_->Import(&second, nullptr, stop, &lost).Is(Kind::kCancelled));
  ASSERT_TRUE(store_->GiveBack().ok());
  store_.reset();
  ASSERT_TRUE(Store::Open(env_.get(), path(), {}, &store_).ok());
  ExpectWhole(root, content);
  EXPECT_GE(PackBytes(), before);
  VerifyReport report;
  ASSERT_TRUE(store_->Verify(nullptr, &report).ok());
  EXPECT_TRUE(report.bad.empty());
  EXPECT_TRUE(report.dangling.empty());
}

TEST(Levels, FollowFromHowMuchWaits) {
  EXPECT_EQ(LevelBy(0), 0);
  EXPECT_EQ(LevelBy(0.24), 0);
  EXPECT_EQ(LevelBy(0.3), kHastyLevel);
  EXPECT_EQ(LevelBy(0.4), kFastLevel);
  EXPECT_EQ(LevelBy(1.1), kFastLevel);
}

}  // namespace
}  // namespace satchel::sim
