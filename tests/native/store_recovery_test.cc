// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Recovering a store: which records an opening finds in packs that a crash or a fault left in any
// state, and which bytes it cuts off.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/native/small_store.h"

namespace satchel::sim {
namespace {

class StoreRecovery : public SmallStore {};

TEST_F(StoreRecovery, ATailIsIndexedUpToTheFirstRecordThatIsTorn) {
  const std::string whole = Pack(1) + Records(4, 9);
  for (const size_t pending : {size_t{1}, size_t{2}, size_t{1000}}) {
    options_.max_pending = pending;
    for (const std::string& torn :
         {std::string(), RecordOf(9).substr(0, 100), RecordOf(9).substr(0, 4159),
          std::string(16, '\0'), "x" + RecordOf(9), RecordOf(9).substr(0, 99) + Records(10, 12)}) {
      SetUp();
      SetPack(1, whole + torn);
      Open();
      EXPECT_EQ(Here(), UpTo(9));
      EXPECT_TRUE(PackIs(1, whole));
      CutPower();
      EXPECT_TRUE(PackIs(1, whole));
      ASSERT_TRUE(Store::OpenToRead(disk_.get(), kStorePath, &store_).ok());
      EXPECT_EQ(Here(), UpTo(9));
      Open();
      Put(9);
      Close();
      EXPECT_TRUE(PackIs(1, whole + RecordOf(9)));
    }
  }
}

// After a sync that failed, the tail is in the memory of the system only, which calls it clean.
TEST_F(StoreRecovery, ATailIsWrittenAgainBeforeItIsIndexed) {
  std::string tail = Records(4, 9);
  while (tail.size() < 3 << 20) tail += Records(0, 4);
  std::unique_ptr<File> file;
  ASSERT_TRUE(disk_->Open(PackPath(1), OpenMode::kReadWrite, &file).ok());
  const std::string before = Pack(1);
  ASSERT_TRUE(file->WriteAt(before.size(), tail.data(), tail.size()).ok());
  disk_->SetFault({Fault::Calls::kChanges, disk_->Calls(Fault::Calls::kChanges)});
  ASSERT_FALSE(file->Sync().ok());
  disk_->Heal();
  ASSERT_TRUE(disk_->Open(PackPath(2), OpenMode::kCreate, &file).ok());
  const std::string second = Header() + RecordOf(9);
  ASSERT_TRUE(file->WriteAt(0, second.data(), second.size()).ok());
  file.reset();
  Open();
  EXPECT_EQ(Here(), UpTo(10));
  CutPower();
  EXPECT_TRUE(Pack(1) == before + tail);
  Open();
  EXPECT_EQ(Here(), UpTo(10));
}

TEST_F(StoreRecovery, APackBehindTheEndIsKeptAsFarAsItIsWhole) {
  const std::string first = Pack(1);
  const std::vector<std::pair<std::string, std::string>> left_and_kept{
      {"", "gone"},
      {Header().substr(0, 15), "gone"},
      {std::string(5000, 'x'), "gone"},
      {Header(), Header()},
      {Header() + RecordOf(4).substr(0, 200), Header()},
      {Header() + Records(4, 6), Header() + Records(4, 6)},
      {Header() + Records(4, 6) + "x" + RecordOf(7), Header() + Records(4, 6)}};
  for (const auto& [left, kept] : left_and_kept) {
    SetUp();
    SetPack(2, left);
    const Image image = disk_->Live();
    Open();
    EXPECT_EQ(Here(), UpTo(kept.size() > 16 ? 6 : 4));
    EXPECT_TRUE(PackIs(1, first));
    EXPECT_TRUE(PackIs(2, kept));
    Put(8);
    Close();
    EXPECT_TRUE(PackIs(1, first + (kept == "gone" ? RecordOf(8) : "")));
    EXPECT_TRUE(PackIs(2, kept + (kept == "gone" ? "" : RecordOf(8))));
    Open();
    EXPECT_EQ(Here().back(), 8u);
    for (uint64_t call = 0;; ++call) {  // an error on the way is told of
      Use(image);
      disk_->SetFault({Fault::Calls::kChanges, call});
      const Status status = TryOpen();
      if (!disk_->failed()) break;
      if (disk_->FailedCall().find("/packs") == std::string::npos) continue;
      EXPECT_TRUE(status.Is(Kind::kIo)) << disk_->FailedCall();
    }
  }
  SetUp();
  SetPack(2, Header(3) + RecordOf(4));
  EXPECT_TRUE(TryOpen().Is(Kind::kUnsupported));
}

TEST_F(StoreRecovery, APackThatLostIndexedRecordsGetsNoNewOnes) {
  const std::string cut = Pack(1).substr(0, 16 + 2 * kRecord);
  SetPack(1, cut);
  Open();
  Put(8);
  Close();
  EXPECT_TRUE(PackIs(1, cut));
  EXPECT_TRUE(PackIs(2, Header() + RecordOf(8)));
  ASSERT_TRUE(disk_->Remove(PackPath(2)).ok());
  Open();
  Put(9);
  Close();
  EXPECT_TRUE(PackIs(2, "gone")) << "the number of a pack is not used again";
  EXPECT_TRUE(PackIs(3, Header() + RecordOf(9)));
  SetUp();
  ASSERT_TRUE(disk_->Remove(PackPath(1)).ok());
  Open();
  Put(8);
  EXPECT_TRUE(PackIs(1, "gone"));
  EXPECT_TRUE(PackIs(2, Header() + RecordOf(8)));
}

TEST_F(StoreRecovery, ARebuiltIndexHasTheWholeRecordsOfAllPacks) {
  std::string harmed = RecordOf(5);
  harmed[kRecordHeaderSize + 7] ^= 1;
  std::string lying;  // a whole record under the name of another chunk
  AppendRecord(RefOf(15), Bytes(BlockOf(14)), 0, &lying);
  const std::string second = Header() + harmed + RecordOf(6) + lying + "torn";
  std::string third = Records(7, 9);
  third = "xATPACK" + Header().substr(7) + third + lying;  // its header is damaged
  const std::string fourth = Header() + RecordOf(9) + "x" + RecordOf(10);
  for (const size_t pending : {size_t{1}, size_t{1000}}) {
    options_.max_pending = pending;
    SetUp();
    SetPack(2, second);
    SetPack(3, third);
    SetPack(4, fourth + "torn");
    SetPack(5, Header().substr(0, 16 - pending % 3));  // nothing was ever acknowledged there
    LoseIndex();
    Open();
    EXPECT_EQ(Here(), (Numbers{0, 1, 2, 3, 6, 7, 8, 9, 10}));
    EXPECT_TRUE(PackIs(2, second)) << "only the newest pack is cut";
    EXPECT_TRUE(PackIs(3, third));
    EXPECT_TRUE(PackIs(5, "gone"));
    CutPower();
    Open();
    EXPECT_EQ(Here(), (Numbers{0, 1, 2, 3, 6, 7, 8, 9, 10}));
    store_.reset();
  }
  SetUp();
  SetPack(2, fourth + "torn");
  LoseIndex();
  Open();
  EXPECT_TRUE(PackIs(2, fourth));
  Put(11);
  EXPECT_TRUE(PackIs(2, fourth + RecordOf(11)));
}

TEST_F(StoreRecovery, ARebuildThatIsStoppedBeginsAgain) {
  options_.max_pending = 2;
  Open();
  std::vector<std::pair<uint64_t, uint64_t>> steps;
  const auto progress = [&](uint64_t done, uint64_t total) {
    steps.emplace_back(done, total);
    return steps.size() != 1;
  };
  EXPECT_TRUE(store_->RebuildIndex(progress).Is(Kind::kCancelled));
  const uint64_t size = 16 + 4 * kRecord;
  EXPECT_EQ(steps, (decltype(steps){{16 + 2 * kRecord, size}}));
  bool has = false;
  const ChunkRef ref = RefOf(0);
  EXPECT_TRUE(store_->Has(&ref, 1, &has).Is(Kind::kState));
  EXPECT_TRUE(store_->TakeNamesakes().empty());
  EXPECT_TRUE(store_->RebuildIndex(progress).ok());
  EXPECT_EQ(Here(), UpTo(4));
  EXPECT_EQ(steps.size(), 3u);
}

TEST_F(StoreRecovery, ARebuildKeepsAcknowledgedRecordsBehindDamageAndCutsTheRest) {
  SetPack(1, Pack(1) + RecordOf(4));
  Open();
  std::unique_ptr<File> file;
  ASSERT_TRUE(disk_->Open(PackPath(1), OpenMode::kReadWrite, &file).ok());
  ASSERT_TRUE(file->WriteAt(16 + kRecord + 99, "x", 1).ok());
  const std::string whole = Pack(1);
  const std::string torn = "torn" + RecordOf(5);
  ASSERT_TRUE(file->WriteAt(whole.size(), torn.data(), torn.size()).ok());
  ASSERT_TRUE(store_->RebuildIndex(nullptr).ok());
  EXPECT_EQ(Here(), (Numbers{0, 2, 3, 4}));
  EXPECT_TRUE(PackIs(1, whole));
}

TEST_F(StoreRecovery, ARebuiltIndexHasTheChunksOfFrames) {
  Open();
  SettleReport report;
  ASSERT_TRUE(SettleQuickly(store_.get(), &report).ok());
  ASSERT_EQ(report.chunks, 4u);
  const size_t size = Pack(2).size();
  Close();
  LoseIndex();
  Open();
  EXPECT_EQ(Here(), UpTo(4));
  Put(8);
  EXPECT_EQ(Pack(2).size(), size + kRecord);
  Close();
  SetPack(2, Pack(2).substr(0, size - 1));  // the frame is torn
  LoseIndex();
  Open();
  EXPECT_EQ(Here(), Numbers{});
}

}  // namespace
}  // namespace satchel::sim
