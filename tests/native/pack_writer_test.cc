// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Much at once is written in whole pages, in writes that are worth it, and nothing of it is left
// behind by a Sync, forgotten after an error or taken for readable too early.
#include "chunkstore/core/packs/pack_writer.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"

namespace satchel::sim {
namespace {

constexpr uint32_t kRecord = kRecordHeaderSize + kBlockSize;
constexpr uint32_t kBatch = 150 * kRecord;  // less than is worth a write; no multiple of a page
constexpr uint64_t kPage = File::kUncachedAlign;

class PackWriterTest : public testing::Test {
 protected:
  // Queues a batch of records and returns the place of the first.
  Location Add(bool bulk, uint32_t size = kBatch) {
    std::string bytes(size, static_cast<char>('a' + letter_++ % 26));
    Location first{};
    Location at{};
    for (uint32_t done = 0; done < size; done += kRecord) {
      EXPECT_TRUE(writer_.Place(kRecord, &at).ok());
      if (done == 0) first = at;
    }
    last_ = at;
    expected_ += bytes;
    writer_.Queue(std::move(bytes), first, bulk);
    return first;
  }

  // Writes what there is to write before `number`; the ends of the writes in the file.
  std::vector<uint64_t> WriteBefore(uint64_t number) {
    std::vector<uint64_t> ends;
    for (PackWrite write; writer_.Take(number, &write);) {
      ends.push_back(write.pieces.front()->offset + write.size);
      const Status status = write.Run();
      EXPECT_TRUE(status.ok());
      writer_.Done(&write, status.ok());
    }
    return ends;
  }

  std::string Written() {
    std::string read(expected_.size(), '?');
    std::unique_ptr<File> file;
    size_t got = 0;
    EXPECT_TRUE(env_.Open(scratch_.path() + "/" + PackName(1), OpenMode::kRead, &file).ok());
    EXPECT_TRUE(file->ReadAt(kPackHeaderSize, read.size(), read.data(), &got).ok());
    return read.substr(0, got);
  }

  const Scratch scratch_;
  ForwardingEnv env_;
  PackWriter writer_{&env_, scratch_.path(), {}, kPackLimit};
  std::string expected_;
  Location last_{};

 private:
  int letter_ = 0;
};

TEST_F(PackWriterTest, BulkWaitsUntilItIsWorthAWriteAndGoesInWholePages) {
  Add(/*bulk=*/true);
  EXPECT_TRUE(WriteBefore(0).empty());
  Add(/*bulk=*/true);
  const std::vector<uint64_t> ends = WriteBefore(0);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0], writer_.end().offset / kPage * kPage);
  EXPECT_EQ(writer_.queued(), writer_.end().offset % kPage);
  EXPECT_EQ(WriteBefore(writer_.next_number()).back(), writer_.end().offset);
  EXPECT_EQ(writer_.queued(), 0u);
  EXPECT_EQ(Written(), expected_);
}

TEST_F(PackWriterTest, WhatIsNotBulkWaitsForNothingAndLetsWhatIsBeforeItGo) {
  Add(/*bulk=*/true);
  Add(/*bulk=*/false);
  Add(/*bulk=*/true);
  EXPECT_EQ(WriteBefore(0).size(), 2u);
  EXPECT_EQ(writer_.queued(), kBatch);
  EXPECT_EQ(WriteBefore(writer_.next_number()).size(), 1u);
  EXPECT_EQ(Written(), expected_);
}

TEST_F(PackWriterTest, ASyncTakesWhatCameBeforeItThoughItIsLittle) {
  Add(/*bulk=*/true);
  const uint64_t number = writer_.next_number();
  Add(/*bulk=*/true, kRecord);
  WriteBefore(number);
  EXPECT_FALSE(writer_.HasQueuedBefore(number));
}

TEST_F(PackWriterTest, ARecordIsReadableOnlyWhenItsLastByteIsWritten) {
  Add(/*bulk=*/true);
  Add(/*bulk=*/true);
  EXPECT_TRUE(writer_.IsQueued(last_));
  WriteBefore(0);
  const uint64_t whole = writer_.end().offset / kPage * kPage;
  ASSERT_LT(last_.offset, whole);
  EXPECT_TRUE(writer_.IsQueued(last_));  // it ends in the page that waits
  Location before = last_;
  before.offset -= kRecord;
  EXPECT_FALSE(writer_.IsQueued(before));
}

TEST_F(PackWriterTest, WhatCouldNotBeWrittenGoesToTheSamePlaceLater) {
  Add(/*bulk=*/true);
  Add(/*bulk=*/true);
  PackWrite failed;
  ASSERT_TRUE(writer_.Take(0, &failed));
  writer_.Done(&failed, /*written=*/false);
  EXPECT_EQ(writer_.queued(), 2 * kBatch);
  WriteBefore(writer_.next_number());
  EXPECT_EQ(Written(), expected_);
}

TEST_F(PackWriterTest, TwoThatWriteNeverHaveTheSamePiece) {
  for (int i = 0; i < 6; ++i) Add(/*bulk=*/true);
  PackWrite one;
  PackWrite other;
  ASSERT_TRUE(writer_.Take(0, &one));
  ASSERT_TRUE(writer_.Take(0, &other));
  EXPECT_EQ(other.pieces.front()->offset, one.pieces.back()->end());
  ASSERT_TRUE(other.Run().ok());
  writer_.Done(&other, true);
  ASSERT_TRUE(one.Run().ok());
  writer_.Done(&one, true);
  WriteBefore(writer_.next_number());
  EXPECT_EQ(Written(), expected_);
}

}  // namespace
}  // namespace satchel::sim
