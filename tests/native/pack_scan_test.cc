// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A scan finds the records and frames of a pack behind any garbage, wherever its reads end.
#include "chunkstore/core/packs/pack_scan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/format/hash.h"
#include "tests/native/forwarding.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

constexpr uint64_t kRead = 1 << 20;  // bytes of the file that a scan reads at once

std::string RecordOf(uint64_t number) {
  const std::string block = MakeBlock(1, number);
  const auto* bytes = reinterpret_cast<const uint8_t*>(block.data());
  std::string record;
  AppendRecord(HashBlock(bytes), bytes, 0, &record);
  return record;
}

std::string FrameOf(unsigned blocks) {
  std::string content = MakeContent(2, blocks);
  std::string frame;
  FrameEncoder encoder(1);
  EXPECT_TRUE(
      encoder
          .Append(FrameCodec::kBlocks, reinterpret_cast<uint8_t*>(content.data()), blocks, &frame)
          .ok());
  return frame;
}

// A file that counts its reads. A broken one fails.
class CountingFile : public ForwardingFile {
 public:
  using ForwardingFile::ForwardingFile;

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    if (broken) return Status::Make(Kind::kIo, "cannot read");
    const Status status = ForwardingFile::ReadAt(offset - base, n, out, got);
    ++reads;
    read += *got;
    return status;
  }

  Status Size(uint64_t* size) override {
    const Status status = ForwardingFile::Size(size);
    *size += base;
    return status;
  }

  uint64_t base = 0;  // the offset of its first byte
  size_t reads = 0;
  uint64_t read = 0;  // bytes
  bool broken = false;
};

class PackScan : public testing::Test {
 protected:
  void SetUp() override { Write(std::string("SATPACK\0\2\0\0\0\0\0\0\0", 16)); }

  void Write(const std::string& data) {
    disk_ = std::make_unique<SimDisk>();
    std::unique_ptr<File> made;
    ASSERT_TRUE(disk_->Open("/pack", OpenMode::kCreate, &made).ok());
    ASSERT_TRUE(made->WriteAt(0, data.data(), data.size()).ok());
    file_ = std::make_unique<CountingFile>(std::move(made));
    data_ = data;
  }

  void Append(const std::string& data) { Write(data_ + data); }

  uint64_t size() const { return data_.size(); }

  Status Header() { return CheckPackHeader(file_.get()); }

  // Scan the range and return each visit as "kind begin end" and its other arguments. The visit of
  // the number `fail` returns an error, which ends the scan.
  std::vector<std::string> Scan(uint64_t begin, uint64_t end, size_t fail = SIZE_MAX) {
    std::vector<std::string> found;
    const auto add = [&](const std::string& kind, uint64_t from, uint64_t to,
                         const std::string& more) {
      found.push_back(kind + " " + std::to_string(from) + " " + std::to_string(to) + more);
      return found.size() == fail ? Status::Make(Kind::kState, "enough") : Status();
    };
    ScanVisitor visitor;
    visitor.on_record = [&](uint64_t offset, const RecordView& record, bool chained) {
      return add("record", offset, offset + record.size(), chained ? "" : " not chained");
    };
    visitor.on_frame = [&](uint64_t offset, const FrameView& frame) {
      return add("frame", offset, offset + frame.size(), "");
    };
    visitor.on_garbage = [&](uint64_t from, uint64_t to, const std::string& why) {
      return add("garbage", from, to, " " + why);
    };
    const Status status = ScanPack(file_.get(), begin, end, visitor);
    EXPECT_EQ(status.Is(Kind::kState), found.size() == fail) << status.ToString();
    EXPECT_TRUE(status.ok() || status.Is(Kind::kState)) << status.ToString();
    return found;
  }

  std::vector<std::string> Scan() { return Scan(kPackHeaderSize, size()); }

  bool Hole(uint64_t begin, uint64_t end) {
    bool hole = false;
    EXPECT_TRUE(IsHole(file_.get(), begin, end, &hole).ok());
    return hole;
  }

  std::unique_ptr<SimDisk> disk_;
  std::unique_ptr<CountingFile> file_;
  std::string data_;
};

using Found = std::vector<std::string>;

TEST_F(PackScan, AHeaderIsOfAPackOfThisVersionWithoutReservedBits) {
  EXPECT_TRUE(Header().ok());
  const std::string sound = data_;
  for (size_t i = 0; i < sound.size(); ++i) {
    std::string harmed = sound;
    harmed[i] = static_cast<char>(harmed[i] ^ 1);
    Write(harmed);
    const Status status = Header();
    const bool version = i >= 8 && i < 12;
    EXPECT_TRUE(status.Is(version ? Kind::kUnsupported : Kind::kDamaged)) << i;
    if (i == 8) {
      EXPECT_EQ(status.why(), "its version is 3, this program knows 2");
    } else if (i >= 12) {
      EXPECT_EQ(status.why(), "a reserved field is not zero");
    }
  }
  for (const size_t cut : {size_t{0}, size_t{8}, size_t{15}}) {
    Write(sound.substr(0, cut));
    EXPECT_TRUE(Header().Is(Kind::kDamaged)) << cut;
  }
  file_->broken = true;
  EXPECT_TRUE(Header().Is(Kind::kIo));
}

TEST_F(PackScan, RecordsAndFramesAreVisitedInOrderAndGarbageBetweenThem) {
  const std::string record = RecordOf(0);
  const std::string frame = FrameOf(3);
  const uint64_t frame_end = 4176 + frame.size();
  Append(record + frame);
  EXPECT_EQ(Scan(), (Found{"record 16 4176", "frame 4176 " + std::to_string(frame_end)}));
  Append("x" + frame + "yy" + record + RecordOf(1) + record.substr(0, 100));
  const uint64_t y = frame_end + 1 + frame.size();
  const auto text = [](uint64_t begin, uint64_t end) {
    return " " + std::to_string(begin) + " " + std::to_string(end);
  };
  const Found all{"record 16 4176",
                  "frame" + text(4176, frame_end),
                  "garbage" + text(frame_end, frame_end + 1) + " wrong magic",
                  "frame" + text(frame_end + 1, y),
                  "garbage" + text(y, y + 2) + " wrong magic",
                  "record" + text(y + 2, y + 4162) + " not chained",
                  "record" + text(y + 4162, y + 8322) + " not chained",
                  "garbage" + text(y + 8322, y + 8422) + " the payload is cut off"};
  EXPECT_EQ(Scan(), all);
  for (size_t stop = 1; stop <= all.size(); ++stop) {
    EXPECT_EQ(Scan(kPackHeaderSize, size(), stop), Found(all.begin(), all.begin() + stop));
  }
  file_->broken = true;
  EXPECT_TRUE(ScanPack(file_.get(), 0, size(), {}).Is(Kind::kIo));
}

TEST_F(PackScan, OnlyTheRangeIsVisited) {
  Append(RecordOf(0) + RecordOf(1));
  const Found first{"record 16 4176"};
  EXPECT_EQ(Scan(16, 4176), first);
  EXPECT_EQ(Scan(4176, size()), Found{"record 4176 8336"});
  EXPECT_EQ(Scan(16, size() + 1), (Found{"record 16 4176", "record 4176 8336"}));
  EXPECT_EQ(Scan(16, 4177), (Found{"record 16 4176", "garbage 4176 4177 the header is cut off"}));
  EXPECT_EQ(Scan(16, 16), Found{});
  EXPECT_EQ(Scan(17, 16), Found{});
  EXPECT_EQ(Scan(size() + 1, size() + 2), Found{});
}

// The record follows garbage and begins in the last bytes of a read.
TEST_F(PackScan, ARecordIsFoundWhereverAReadEnds) {
  const std::string header = data_;
  for (uint64_t before = kRead - 4; before <= kRead + 1; ++before) {
    Write(header + std::string(before, 'x') + RecordOf(0));
    const std::string at = std::to_string(16 + before);
    EXPECT_EQ(Scan(), (Found{"garbage 16 " + at + " wrong magic",
                             "record " + at + " " + std::to_string(size()) + " not chained"}));
  }
}

// Only the end of a read is read again, for a frame of the largest size might be cut off there.
TEST_F(PackScan, EachByteIsReadAboutOnce) {
  std::string data = data_;
  for (uint64_t i = 0; i < 600; ++i) data += RecordOf(i % 4);
  Write(data);
  EXPECT_EQ(Scan().size(), 600u);
  EXPECT_EQ(file_->reads, 3u);
  EXPECT_LT(file_->read, size() + 2 * kMaxFrameSize);
}

TEST_F(PackScan, NothingIsReadBehindTheLargestSizeOfAPack) {
  const auto text = [](uint64_t begin, uint64_t end) {
    return " " + std::to_string(begin) + " " + std::to_string(end);
  };
  const uint64_t begin = kPackLimit - kMaxRecordSize;
  const std::string first = "record" + text(begin, kPackLimit);
  for (const uint64_t more : {0, 1, 4160}) {
    Write((RecordOf(0) + RecordOf(1)).substr(0, kMaxRecordSize + more));
    file_->base = begin;
    Found expected{first};
    const std::string rest = "garbage" + text(kPackLimit, kPackLimit + more);
    if (more > 0) expected.push_back(rest + " a pack has at most 256 MiB");
    EXPECT_EQ(Scan(begin, kPackLimit + 4160), expected);
  }
  Write(std::string(kMaxRecordSize + 10, 'x'));
  file_->base = begin;
  EXPECT_EQ(Scan(begin, kPackLimit + 5),
            Found{"garbage" + text(begin, kPackLimit + 5) + " wrong magic"});
}

TEST_F(PackScan, AHoleIsZerosOnly) {
  Write(std::string(9000, '\0') + "x" + std::string(100, '\0'));
  EXPECT_TRUE(Hole(0, 9000));
  EXPECT_TRUE(Hole(9001, 9101));
  EXPECT_FALSE(Hole(0, 9001));
  EXPECT_FALSE(Hole(9000, 9001));
  EXPECT_FALSE(Hole(9000, 9101));
  EXPECT_FALSE(Hole(0, 9101));
  bool hole = false;
  file_->broken = true;
  EXPECT_TRUE(IsHole(file_.get(), 0, 9000, &hole).Is(Kind::kIo));
}

}  // namespace
}  // namespace satchel::sim
