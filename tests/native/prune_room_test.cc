// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A prune on a disk that has no room for copies: it makes holes, or says that it freed nothing.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunkstore/core/store/store.h"
#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

constexpr uint64_t kBlocks = 1000;

class WithoutHoles final : public ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;
  Status PunchHole(uint64_t, uint64_t) override {
    return Status::Make(Kind::kUnsupported, "cannot punch", "for a test");
  }
};

class FullDisk final : public ForwardingEnv {
 public:
  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override {
    SATCHEL_RETURN_IF_ERROR(ForwardingEnv::Open(path, mode, file));
    if (!has_holes) *file = std::make_unique<WithoutHoles>(std::move(*file));
    return {};
  }
  Status FreeBytes(const std::string& path, uint64_t* bytes) override {
    if (!full) return ForwardingEnv::FreeBytes(path, bytes);
    *bytes = 0;
    return {};
  }

  bool full = false;
  bool has_holes = true;
};

class PruneRoom : public testing::Test {
 protected:
  // One pack, of which the first part is kept.
  void SetUp() override {
    ASSERT_TRUE(Store::Create(&disk_, path()).ok());
    ChunkOptions options;
    options.level = 0;
    ASSERT_TRUE(Store::Open(&disk_, path(), options, &store_).ok());
    content_ = MakeContent(1, kBlocks);
    kept_ = Import(content_);
    (void)Import(MakeContent(2, kBlocks));
  }

  TableRoot Import(const std::string& content) {
    const auto* const data = reinterpret_cast<const uint8_t*>(content.data());
    TableRoot root;
    EXPECT_TRUE(
        store_->Import(MemorySource(data, content.size()).get(), nullptr, nullptr, &root).ok());
    return root;
  }

  Status Prune(PruneReport* report) {
    return store_->Prune({kept_}, {}, /*partial=*/false, /*dry_run=*/false, nullptr, report);
  }

  void ExpectWhole() {
    std::string back(content_.size(), '\0');
    auto* const data = reinterpret_cast<uint8_t*>(back.data());
    EXPECT_TRUE(store_->Read(kept_, 0, back.size(), data).ok());
    EXPECT_TRUE(back == content_);
    VerifyReport report;
    ASSERT_TRUE(store_->Verify(nullptr, &report).ok());
    EXPECT_TRUE(report.bad.empty());
    EXPECT_TRUE(report.dangling.empty());
  }

  std::string path() const { return scratch_.path() + "/store"; }

  const Scratch scratch_;
  FullDisk disk_;
  std::unique_ptr<Store> store_;
  std::string content_;
  TableRoot kept_;
};

TEST_F(PruneRoom, WithoutRoomForACopyItMakesHoles) {
  disk_.full = true;
  PruneReport report;
  const Status status = Prune(&report);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_LT(report.bytes_after, report.bytes_before * 3 / 4);
  EXPECT_GT(report.bytes_in_holes, 0u);
  ExpectWhole();
  PruneReport again;
  ASSERT_TRUE(Prune(&again).ok());
  EXPECT_EQ(again.bytes_in_holes, 0u);  // there was nothing left to do
  ASSERT_TRUE(store_->RebuildIndex(nullptr).ok());
  ExpectWhole();
  disk_.full = false;
  PruneReport copied;
  ASSERT_TRUE(Prune(&copied).ok());
  EXPECT_LT(copied.bytes_after, report.bytes_before * 3 / 4);
  EXPECT_EQ(copied.bytes_in_holes, 0u);
  ExpectWhole();
}

TEST_F(PruneRoom, WithoutRoomAndHolesItSaysThatItFreedNothing) {
  disk_.full = true;
  disk_.has_holes = false;
  PruneReport report;
  EXPECT_TRUE(Prune(&report).Is(Kind::kFull));
  ExpectWhole();
  disk_.full = false;
  ASSERT_TRUE(Prune(&report).ok());
  ExpectWhole();
}

}  // namespace
}  // namespace satchel::sim
