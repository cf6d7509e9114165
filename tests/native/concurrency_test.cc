// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Threads of one process on one store, on real files. Run under ThreadSanitizer as well.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "chunkstore/core/store/store.h"
#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/workload.h"

// ThreadSanitizer does not see the atomics of a LevelDB that was built without it, but does see its
// memcmp and memcpy: an iterator beside a write is a race to it. What has a frame of LevelDB says
// nothing; everything else does.
extern "C" const char* __tsan_default_suppressions() { return "race:libleveldb.so\n"; }

namespace satchel::sim {
namespace {

const uint8_t* Bytes(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}
uint8_t* Bytes(std::string* text) { return reinterpret_cast<uint8_t*>(text->data()); }

// What writers have stored and readers may ask for.
class Published {
 public:
  void Add(const ChunkRef& ref, std::string block) {
    const std::lock_guard lock(mutex_);
    chunks_.emplace_back(ref, std::move(block));
  }

  bool Pick(Random* random, ChunkRef* ref, std::string* block) {
    const std::lock_guard lock(mutex_);
    if (chunks_.empty()) return false;
    const auto& chosen = chunks_[random->Below(chunks_.size())];
    *ref = chosen.first;
    *block = chosen.second;
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<ChunkRef, std::string>> chunks_;
};

class Concurrency : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(Store::Create(PosixEnv(), path()).ok());
    ChunkOptions options = SmallOptions();
    options.max_pending = 32;  // so that syncs run in the background
    const Status status = Store::Open(PosixEnv(), path(), options, &store_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  std::string path() const { return scratch_.path() + "/store"; }

  void Put(uint64_t seed, uint64_t blocks, Published* published) {
    for (uint64_t i = 0; i < blocks; ++i) {
      std::string block = MakeBlock(seed, i);
      ChunkRef ref;
      const Status status = store_->Put(Bytes(block), 1, &ref);
      ASSERT_TRUE(status.ok()) << status.ToString();
      if (published != nullptr && !ref.IsZero()) published->Add(ref, std::move(block));
      if (i % 40 == 39) {
        ASSERT_TRUE(store_->Sync().ok());
      }
    }
  }

  void Read(uint64_t seed, Published* published, const std::atomic<bool>& over) {
    Random random(seed);
    std::string got(kBlockSize, '\0');
    while (!over) {
      ChunkRef ref;
      std::string expected;
      if (!published->Pick(&random, &ref, &expected)) continue;
      const Status status = store_->Get(ref, Bytes(&got));
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(got, expected);
      std::string records;
      ASSERT_TRUE(store_->Records(&ref, 1, &records).ok());
      ASSERT_FALSE(records.empty());
    }
  }

  const Scratch scratch_;
  std::unique_ptr<Store> store_;
};

TEST_F(Concurrency, ReadersSeeWholeChunksWhileOthersPut) {
  Published published;
  std::atomic<bool> over{false};
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 2; ++i) {
    readers.emplace_back([&, i] { Read(i, &published, over); });
  }
  std::vector<std::thread> writers;
  for (uint64_t i = 0; i < 2; ++i) {
    writers.emplace_back([&, i] { Put(100 + i / 2, 300, &published); });  // both put the same
  }
  for (std::thread& thread : writers) thread.join();
  over = true;
  for (std::thread& thread : readers) thread.join();
  VerifyReport report;
  ASSERT_TRUE(store_->Verify(nullptr, &report).ok());
  EXPECT_TRUE(report.bad.empty());
  EXPECT_TRUE(report.dangling.empty());
}

// A verify begins when settling removes a pack. It gets as far as it can before the pack is gone,
// and goes on afterwards.
class LateRemoval final : public ForwardingEnv {
 public:
  Status Remove(const std::string& path) override {
    const bool first = path.find("/packs/") != std::string::npos && !std::exchange(begun_, true);
    if (!first) return ForwardingEnv::Remove(path);
    verify_ = std::async(std::launch::async, [this] {
      verifying_ = std::this_thread::get_id();
      return store->Verify(nullptr, &report);
    });
    (void)listed_.get_future().wait_for(std::chrono::milliseconds(300));
    const Status status = ForwardingEnv::Remove(path);
    removed_.set_value();
    return status;
  }

  Status List(const std::string& path, std::vector<std::string>* names) override {
    const Status status = ForwardingEnv::List(path, names);
    if (verifying_.load() == std::this_thread::get_id()) {
      listed_.set_value();
      removed_.get_future().wait();
    }
    return status;
  }

  Status Verified() { return verify_.get(); }

  std::unique_ptr<Store> store;
  VerifyReport report;

 private:
  bool begun_ = false;
  std::atomic<std::thread::id> verifying_;
  std::promise<void> listed_;
  std::promise<void> removed_;
  std::future<Status> verify_;
};

TEST_F(Concurrency, AVerifyThatBeginsWhenSettlingRemovesAPackCallsNothingBad) {
  Put(3, 100, nullptr);
  store_.reset();
  LateRemoval env;
  ASSERT_TRUE(Store::Open(&env, path(), SmallOptions(), &env.store).ok());
  SettleReport settled;
  ASSERT_TRUE(SettleQuickly(env.store.get(), &settled).ok());
  const Status status = env.Verified();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(env.report.bad.empty());
  EXPECT_TRUE(env.report.dangling.empty());
}

TEST_F(Concurrency, PruneVerifyAndImportAtTheSameTimeLoseNothing) {
  std::mutex mutex;
  std::vector<TableRoot> roots;
  std::vector<std::string> contents;
  std::atomic<bool> over{false};
  const auto import = [&](uint64_t seed) {
    const std::string content = MakeContent(seed, 70);
    const auto source = MemorySource(Bytes(content), content.size());
    TableRoot root;
    // A root that is being made is protected by nobody but whoever prunes.
    const std::lock_guard lock(mutex);
    ASSERT_TRUE(store_->Import(source.get(), nullptr, nullptr, &root).ok());
    roots.push_back(root);
    contents.push_back(content);
  };
  std::thread prune([&] {
    while (!over) {
      const std::lock_guard lock(mutex);
      PruneReport report;
      const Status status = store_->Prune(roots, {}, false, false, nullptr, &report);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  });
  std::thread verify([&] {
    while (!over) {
      VerifyReport report;
      StoreStats stats;
      ASSERT_TRUE(store_->Verify(nullptr, &report).ok());
      EXPECT_TRUE(report.dangling.empty());
      ASSERT_TRUE(store_->Stats(&stats).ok());
    }
  });
  std::thread garbage([&] { Put(900, 150, nullptr); });
  for (uint64_t seed = 0; seed < 6; ++seed) import(seed);
  garbage.join();
  over = true;
  prune.join();
  verify.join();
  for (size_t i = 0; i < roots.size(); ++i) {
    std::string got(contents[i].size(), '\0');
    const Status status = store_->Read(roots[i], 0, got.size(), Bytes(&got));
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(got, contents[i]);
  }
}

// As the nbdkit plugin does it: what a map says is packed can be read from the pack file.
TEST_F(Concurrency, ABlockThatAMapCallsPackedIsInItsPack) {
  const std::string content = MakeContent(5, 64);
  const auto source = MemorySource(Bytes(content), content.size());
  TableRoot root;
  ASSERT_TRUE(store_->Import(source.get(), nullptr, nullptr, &root).ok());
  std::unique_ptr<BlockMap> map;
  ASSERT_TRUE(BlockMap::Create(scratch_.path() + "/map", 64, &map).ok());
  std::atomic<bool> over{false};
  std::thread plugin([&] {
    PackReader reader(PosixEnv(), path() + "/packs");
    std::string block(kBlockSize, '\0');
    for (uint64_t i = 0; !over; i = (i + 1) % 64) {
      const BlockEntry entry = map->Load(i);
      if (entry.state != BlockState::kPacked) continue;
      const Status status = reader.ReadBlock(entry.at, Bytes(&block));
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(block, content.substr(i * kBlockSize, kBlockSize));
    }
  });
  std::thread other([&] { Put(6, 200, nullptr); });
  for (uint32_t i = 0; i < 64; i += 2) {
    const std::string block = content.substr(i * kBlockSize, kBlockSize);
    ASSERT_TRUE(store_->Place(map.get(), &i, 1, Bytes(block)).ok());
  }
  std::vector<ChunkRef> missing;
  ASSERT_TRUE(store_->Resolve(root, map.get(), 0, 64, &missing).ok());
  EXPECT_TRUE(missing.empty());
  other.join();
  over = true;
  plugin.join();
}

TEST_F(Concurrency, RebuildingTheIndexWaitsForReadersAndTheyForIt) {
  Published published;
  Put(7, 120, &published);
  std::atomic<bool> over{false};
  std::vector<std::thread> readers;
  for (uint64_t i = 0; i < 2; ++i) {
    readers.emplace_back([&, i] { Read(i, &published, over); });
  }
  for (int i = 0; i < 5; ++i) {
    const Status status = store_->RebuildIndex(nullptr);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  over = true;
  for (std::thread& thread : readers) thread.join();
}

}  // namespace
}  // namespace satchel::sim
