// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The index writes the example of docs/formats/store.md, byte by byte, as LevelDB itself reads it.
// Its answers are right or an error on a disk that fails, loses its power, or returns other bytes.
#include "chunkstore/core/index/index.h"

#include <gtest/gtest.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/sim_disk.h"

namespace satchel::sim {
namespace {

const std::string kId =
    "\xc8\x0c\xb7\x09\x35\xa2\xf3\xa1\x6d\xbc\x52\x01\x02\x3d\xe9\xd6\x8c\x02\xd7\xab";
const std::string kDigest =
    "\xad\x52\x4c\x2b\x72\x4d\xf0\x67\x01\x96\x66\xd3\x7b\x1b\x0b\x1b"
    "\x8c\x68\xa4\x80\x86\x83\x66\xf2\xe2\x9d\xbc\x38\x19\xc4\x24\xcd";

class IndexBytes : public testing::Test {
 protected:
  void SetUp() override { std::memcpy(ref_.bytes, (kId + kDigest).data(), kChunkRefSize); }

  std::string path() const { return scratch_.path() + "/index"; }

  void Write(const Location& at, const std::vector<ChunkRef>& erase) {
    std::unique_ptr<Index> index;
    ASSERT_TRUE(Index::Open(PosixEnv(), path(), &index).ok());
    ASSERT_TRUE(index->Write({{ref_, at}}, erase, {1, 105}).ok());
  }

  // Every key with its value.
  std::map<std::string, std::string> Read() {
    leveldb::DB* opened = nullptr;
    EXPECT_TRUE(leveldb::DB::Open({}, path(), &opened).ok());
    const std::unique_ptr<leveldb::DB> db(opened);
    const std::unique_ptr<leveldb::Iterator> at(db->NewIterator({}));
    std::map<std::string, std::string> found;
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      found[at->key().ToString()] = at->value().ToString();
    }
    return found;
  }

  const Scratch scratch_;
  ChunkRef ref_{};
  const std::string end_{"\x01\0\0\0\x69\0\0\0\0\0\0\0", 12};
};

TEST_F(IndexBytes, OfAChunkInARecordAreThoseOfThePage) {
  Write({1, 16, 25}, {});
  const std::string value("\x64\x80\0\0\x10\0\0\0", 8);
  EXPECT_EQ(Read(), (std::map<std::string, std::string>{{kId + kDigest, value}, {"end", end_}}));
}

TEST_F(IndexBytes, OfAChunkInAFrameAreThoseOfThePageAndItsRecordIsGone) {
  Write({1, 16, 25}, {});
  Write({2, 159, FrameLength(3 * kFrameUnit)}, {ref_});
  const std::string key = kId.substr(0, 4) + kDigest.substr(0, 12);
  const std::string value("\x0c\x40\x01\0\x9f\0\0\0", 8);
  EXPECT_EQ(Read(), (std::map<std::string, std::string>{{key, value}, {"end", end_}}));
}

constexpr char kIndexPath[] = "/store/index";
constexpr PackPosition kEnd{0x01020304, 0x0102030405060708};

// A reference whose SHA-1 begins with these bytes and is filled up with `id`; the SHA-256 is of
// `digest` only.
ChunkRef Ref(const std::string& begin, char id = 'i', char digest = 'd') {
  ChunkRef ref;
  std::memset(ref.bytes, id, kChunkIdSize);
  std::memset(ref.digest(), digest, kDigestSize);
  std::memcpy(ref.bytes, begin.data(), begin.size());
  return ref;
}

Location InRecord(uint32_t offset) { return {3, offset, 100}; }
Location InFrame(uint32_t offset) { return {4, offset, FrameLength(100), 2}; }

// Return every chunk with its place, in the order of the index, and "error" after an error.
using Content = std::vector<std::pair<std::string, uint64_t>>;
Content ContentOf(const Index& index, unsigned part = 0, unsigned parts = 1) {
  Content found;
  const Status status = index.ForEachIn(part, parts, [&](const ChunkRef& ref, const Location& at) {
    found.emplace_back(Hex(ref.bytes, kChunkRefSize), EncodeLocation(at));
    return Status();
  });
  if (!status.ok()) found.emplace_back("error", static_cast<uint64_t>(status.kind()));
  return found;
}

constexpr int64_t kAbsent = -100;

class IndexTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(disk_.MakeDir("/store").ok());
    ASSERT_TRUE(disk_.SyncDir("/").ok());
    Open();
  }

  void Open() {
    index_.reset();
    const Status status = Index::Open(&disk_, kIndexPath, &index_);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  void Write(const std::vector<Index::Entry>& put, const std::vector<ChunkRef>& erase = {}) {
    ASSERT_TRUE(index_->Write(put, erase, kEnd).ok());
  }

  // The offset of the chunk's place, kAbsent, or the negative kind of the error.
  int64_t Get(const ChunkRef& ref) {
    Location at{};
    bool found = true;
    const Status status = index_->Get(ref, &at, &found);
    if (!status.ok()) return -static_cast<int64_t>(status.kind());
    return found ? at.offset : kAbsent;
  }

  bool HasNamesake(const ChunkRef& ref) {
    bool found = true;
    EXPECT_TRUE(index_->HasNamesake(ref, &found).ok());
    return found;
  }

  // Writes to the closed index what Index does not.
  static void Raw(const std::string& path, const std::string& key, const std::string& value) {
    leveldb::DB* opened = nullptr;
    leveldb::Options options;
    options.create_if_missing = true;
    ASSERT_TRUE(leveldb::DB::Open(options, path, &opened).ok());
    const std::unique_ptr<leveldb::DB> db(opened);
    ASSERT_TRUE(db->Put({}, key, value).ok());
  }

  SimDisk disk_;
  std::unique_ptr<Index> index_;
};

int64_t Error(Kind kind) { return -static_cast<int64_t>(kind); }

TEST_F(IndexTest, AChunkIsFoundByItsWholeAndByItsCutReference) {
  const ChunkRef record = Ref("aaaa");
  const ChunkRef frame = Ref("bbbb");
  const ChunkRef beside = Ref("aaaa", 'i', 'e');  // the same first bytes of the SHA-1
  Write({{frame, InFrame(1)}, {beside, InRecord(2)}, {record, InRecord(3)}});
  for (const bool reopened : {false, true}) {
    if (reopened) Open();
    EXPECT_EQ(Get(frame), 1);
    EXPECT_EQ(Get(frame.Cut()), 1);
    EXPECT_EQ(Get(beside), 2);
    EXPECT_EQ(Get(beside.Cut()), 2);
    EXPECT_EQ(Get(record), 3);
    EXPECT_EQ(Get(record.Cut()), 3);
    EXPECT_EQ(Get(Ref("cccc")), kAbsent);
    EXPECT_EQ(Get(Ref("aaaa", 'i', 'f').Cut()), kAbsent);
    EXPECT_EQ(Get(Ref("aaaa", 'j')), kAbsent);
  }
}

TEST_F(IndexTest, ANamesakeIsAnotherRecordWithTheWholeSha1) {
  const ChunkRef ref = Ref("aaaa");
  EXPECT_FALSE(HasNamesake(ref));
  Write({{ref, InRecord(1)}, {Ref("aaaa", 'j'), InRecord(2)}, {Ref("aaaa", 'i', 'a'), InFrame(3)}});
  EXPECT_FALSE(HasNamesake(ref));
  EXPECT_TRUE(HasNamesake(Ref("aaaa", 'i', 'z')));
  for (const char digest : {'a', 'z'}) {  // before it and after it
    const ChunkRef other = Ref("aaaa", 'i', digest);
    Write({{other, InRecord(4)}});
    EXPECT_TRUE(HasNamesake(ref)) << digest;
    EXPECT_TRUE(HasNamesake(other)) << digest;
    Write({}, {other});
  }
  EXPECT_FALSE(HasNamesake(ref));
}

TEST_F(IndexTest, AChunkIsThereOnce) {
  const ChunkRef ref = Ref("aaaa");
  const ChunkRef other = Ref("bbbb");
  const auto whole = [](const ChunkRef& a, const Location& at) {
    return Content{{Hex(a.bytes, kChunkRefSize), EncodeLocation(at)}};
  };
  Write({{ref, InRecord(1)}});
  Write({{ref, InFrame(2)}});  // takes it out of its record
  EXPECT_EQ(ContentOf(*index_), whole(ref.Cut(), InFrame(2)));
  const std::vector<Index::Entry> again{{ref, InRecord(3)}, {other, InFrame(4)}};
  EXPECT_EQ(Index::OfFrames(again), std::vector<ChunkRef>{ref.Cut()});
  Write(again, Index::OfFrames(again));
  Write({}, {other.Cut()});
  EXPECT_EQ(ContentOf(*index_), whole(ref, InRecord(3)));
  Write({{other, InRecord(5)}}, {ref});  // by its whole reference out of either
  EXPECT_EQ(ContentOf(*index_), whole(other, InRecord(5)));
  Write({{ref, InFrame(6)}}, {ref, other});
  EXPECT_EQ(ContentOf(*index_), whole(ref.Cut(), InFrame(6)));
  Write({}, {ref});
  EXPECT_EQ(ContentOf(*index_), Content{});
}

TEST_F(IndexTest, PartsDivideTheReferencesByTheirFirstBits) {
  std::vector<Index::Entry> put;
  for (const int first : {0, 1, 63, 64, 100, 127, 128, 254, 255}) {
    const ChunkRef ref = Ref(std::string(1, static_cast<char>(first)));
    put.push_back({ref, InRecord(1 + static_cast<uint32_t>(first))});
  }
  std::reverse(put.begin(), put.end());
  Write(put);
  const Content all = ContentOf(*index_);
  EXPECT_EQ(all.size(), put.size());
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  for (const unsigned parts : {2u, 4u, 256u}) {
    Content together;
    for (unsigned part = 0; part < parts; ++part) {
      for (const auto& [name, at] : ContentOf(*index_, part, parts)) {
        EXPECT_EQ((DecodeLocation(at).offset - 1) * parts / 256, part);
        together.emplace_back(name, at);
      }
    }
    EXPECT_EQ(together, all);
  }
  int visits = 0;
  const auto stop = [&](const ChunkRef&, const Location&) {
    return ++visits < 3 ? Status() : Status::Make(Kind::kCancelled, "enough");
  };
  EXPECT_TRUE(index_->ForEach(stop).Is(Kind::kCancelled));
  EXPECT_EQ(visits, 3);
}

TEST_F(IndexTest, TheEndIsThatOfTheLastWriteAndARebuildHasNone) {
  PackPosition end{7, 7};
  bool complete = true;
  ASSERT_TRUE(index_->Fill({{Ref("aaaa"), InRecord(1)}, {Ref("bbbb"), InFrame(2)}}).ok());
  EXPECT_TRUE(index_->End(&end, &complete).ok());
  EXPECT_FALSE(complete);
  EXPECT_EQ(std::pair(end.pack, end.offset), std::pair(0u, uint64_t{0}));
  EXPECT_EQ(Get(Ref("aaaa")), 1);
  ASSERT_TRUE(index_->Fill({{Ref("bbbb"), InRecord(3)}}).ok());
  EXPECT_EQ(ContentOf(*index_).size(), 2u);
  Write({});
  EXPECT_TRUE(index_->End(&end, &complete).ok());
  EXPECT_TRUE(complete);
  EXPECT_EQ(std::pair(end.pack, end.offset), std::pair(kEnd.pack, kEnd.offset));
  EXPECT_TRUE(index_->End(&end).ok());
}

// In every state that a power cut may leave, and twice, as a removal may be cut off again.
TEST_F(IndexTest, WhatIsWrittenIsDurableAndWhatIsRemovedIsNeverThereInPart) {
  index_.reset();
  for (unsigned round = 0; round < 2; ++round) {
    Open();
    const size_t empty = disk_.Position();
    Write({{Ref("aaaa"), InRecord(1)}});
    ASSERT_TRUE(index_->Compact().ok());
    Write({{Ref("bbbb"), InRecord(2)}});
    index_.reset();
    const size_t written = disk_.Position();
    ASSERT_TRUE(Index::Destroy(&disk_, kIndexPath).ok());
    EXPECT_FALSE(disk_.Exists(kIndexPath));
    const std::vector<Op> journal = disk_.Journal();
    Durability durability(disk_.base());
    Random random(1);
    for (size_t i = 0; i < journal.size(); ++i) {
      durability.Advance(journal[i]);
      if (i + 1 < empty) continue;
      for (const uint64_t how : {0, 1, 2, 3}) {
        SimDisk after(durability.Crash(how, &random));
        std::unique_ptr<Index> index;
        ASSERT_TRUE(Index::Open(&after, kIndexPath, &index).ok()) << i;
        const Content content = ContentOf(*index);
        EXPECT_TRUE(i + 1 != written || content.size() == 2) << i;
        EXPECT_TRUE(i + 1 < written || content.empty() || content.size() == 2) << i;
        EXPECT_TRUE(i + 1 < journal.size() || how != 0 || content.empty()) << i;
        index.reset();
        ASSERT_TRUE(Index::Destroy(&after, kIndexPath).ok()) << i;
        std::vector<std::string> names;
        ASSERT_TRUE(after.List("/store", &names).ok());
        EXPECT_EQ(names, std::vector<std::string>{}) << i;
      }
    }
  }
}

TEST_F(IndexTest, ACallThatFailsIsAnErrorThatSaysWhy) {
  for (const auto& [error, kind] :
       {std::pair(EIO, Kind::kIo), {ENOSPC, Kind::kFull}, {EROFS, Kind::kDenied}}) {
    const auto fails = [&](Fault::Calls calls, const std::function<Status(Env*)>& act) {
      size_t failed = 0;
      for (uint64_t call = 0;; ++call) {
        SimDisk disk(disk_.Live());
        disk.SetFault({calls, call, true, false, error});
        const Status status = act(&disk);
        if (!disk.failed()) return failed;
        EXPECT_TRUE(status.Is(kind)) << disk.FailedCall() << ": " << status.ToString();
        ++failed;
      }
    };
    Write({{Ref("aaaa"), InRecord(1)}});
    index_.reset();
    const auto destroy = [](Env* env) { return Index::Destroy(env, kIndexPath); };
    const auto write = [](Env* env) {
      std::unique_ptr<Index> index;
      SATCHEL_RETURN_IF_ERROR(Index::Open(env, kIndexPath, &index));
      return index->Write({{Ref("bbbb"), InRecord(2)}}, {}, kEnd);
    };
    EXPECT_GT(fails(Fault::Calls::kChanges, destroy), 3u);
    EXPECT_GT(fails(Fault::Calls::kReads, destroy), 0u);
    EXPECT_GT(fails(Fault::Calls::kChanges, write), 3u);
    ASSERT_TRUE(destroy(&disk_).ok());
    EXPECT_GT(fails(Fault::Calls::kChanges, write), 5u);
    Open();
    Write({{Ref("aaaa"), InRecord(1)}});
    ASSERT_TRUE(index_->Compact().ok());
    PackPosition end;
    disk_.SetFault({Fault::Calls::kReads, 0, true, false, error});
    EXPECT_EQ(Get(Ref("aaaa")), Error(kind));
    EXPECT_TRUE(index_->End(&end).Is(kind));
    disk_.Heal();
  }
}

TEST_F(IndexTest, OtherBytesOfATableOrALogAreDamage) {
  const ChunkRef record = Ref("aaaa");
  const ChunkRef frame = Ref("bbbb");
  Write({{record, InRecord(0x5555555)}, {frame, InFrame(0x5555555)}});
  index_.reset();
  const auto harmed = [&](const std::string& end) {
    Image image = disk_.Live();
    for (const std::string& path : image.Files()) {
      if (path.size() < end.size() || path.substr(path.size() - end.size()) != end) continue;
      std::string content = *image.Find(path)->data;
      const size_t place = content.find("\x55\x55\x55");
      if (place == std::string::npos) continue;
      content[place] = 'x';
      image.SetContent(path, content);
    }
    return image;
  };
  SimDisk log(harmed(".log"));
  EXPECT_TRUE(Index::Open(&log, kIndexPath, &index_).Is(Kind::kDamaged));
  ReadingEnv reading(&log);
  EXPECT_TRUE(Index::OpenToRead(&reading, kIndexPath, &index_).Is(Kind::kDamaged));
  Open();
  ASSERT_TRUE(index_->Compact().ok());
  index_.reset();
  SimDisk table(harmed(".ldb"));
  ASSERT_TRUE(Index::Open(&table, kIndexPath, &index_).ok());
  const int64_t damaged = Error(Kind::kDamaged);
  EXPECT_EQ(Get(record), damaged);
  EXPECT_EQ(Get(record.Cut()), damaged);
  EXPECT_EQ(Get(frame), damaged);
  EXPECT_EQ(ContentOf(*index_), (Content{{"error", static_cast<uint64_t>(Kind::kDamaged)}}));
  bool found = false;
  EXPECT_TRUE(index_->HasNamesake(record, &found).Is(Kind::kDamaged));
  PackPosition end;
  EXPECT_TRUE(index_->End(&end).Is(Kind::kDamaged));
}

TEST_F(IndexTest, AValueOfAWrongSizeAndAnIndexOfAnotherOrderAreDamage) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/index";
  const ChunkRef ref = Ref("aaaa");
  for (const size_t size : {size_t{0}, size_t{7}, size_t{9}, size_t{11}, size_t{13}}) {
    ASSERT_TRUE(Index::Destroy(PosixEnv(), path).ok());
    Raw(path, std::string(reinterpret_cast<const char*>(ref.bytes), kChunkRefSize),
        std::string(size, 'v'));
    Raw(path, "end", std::string(size, 'v'));
    ASSERT_TRUE(Index::Open(PosixEnv(), path, &index_).ok());
    EXPECT_EQ(Get(ref), Error(Kind::kDamaged));
    EXPECT_EQ(Get(ref.Cut()), Error(Kind::kDamaged));
    EXPECT_EQ(ContentOf(*index_), (Content{{"error", static_cast<uint64_t>(Kind::kDamaged)}}));
    PackPosition end;
    EXPECT_TRUE(index_->End(&end).Is(Kind::kDamaged));
    index_.reset();
  }
  class Backwards : public leveldb::Comparator {
    int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
      return b.compare(a);
    }
    const char* Name() const override { return "backwards"; }
    void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
    void FindShortSuccessor(std::string*) const override {}
  };
  const Backwards backwards;
  leveldb::Options options;
  options.create_if_missing = true;
  options.comparator = &backwards;
  leveldb::DB* db = nullptr;
  ASSERT_TRUE(leveldb::DB::Open(options, scratch.path() + "/other", &db).ok());
  delete db;
  EXPECT_TRUE(Index::Open(PosixEnv(), scratch.path() + "/other", &index_).Is(Kind::kDamaged));
}

TEST_F(IndexTest, WhoOpensItToReadChangesNothingAndIsRefusedToWrite) {
  Write({{Ref("aaaa"), InRecord(1)}});
  index_.reset();
  const size_t before = disk_.Position();
  ReadingEnv reading(&disk_);
  ASSERT_TRUE(Index::OpenToRead(&reading, kIndexPath, &index_).ok());
  EXPECT_EQ(Get(Ref("aaaa")), 1);
  EXPECT_TRUE(index_->Write({{Ref("bbbb"), InRecord(2)}}, {}, kEnd).Is(Kind::kDenied));
  EXPECT_EQ(Get(Ref("bbbb")), kAbsent);
  index_.reset();
  EXPECT_EQ(disk_.Position(), before);
}

// Counts the reads of tables.
class CountingEnv : public satchel::ForwardingEnv {
 public:
  explicit CountingEnv(Env* env) : satchel::ForwardingEnv(env) {}

  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override {
    const Status status = satchel::ForwardingEnv::Open(path, mode, file);
    if (status.ok()) *file = std::make_unique<Counting>(std::move(*file), &reads);
    return status;
  }

  int reads = 0;

 private:
  class Counting : public ForwardingFile {
   public:
    Counting(std::unique_ptr<File> file, int* reads)
        : ForwardingFile(std::move(file)), reads_(reads) {}
    Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
      ++*reads_;
      return ForwardingFile::ReadAt(offset, n, out, got);
    }

   private:
    int* const reads_;
  };
};

// 40,000 chunks, which take 2.6 MB.
TEST_F(IndexTest, ALargeOneReadsLittleAndShrinks) {
  index_.reset();
  CountingEnv env(&disk_);
  ASSERT_TRUE(Index::Open(&env, kIndexPath, &index_).ok());
  const auto numbered = [](unsigned n) {
    return Ref({static_cast<char>(n >> 8), static_cast<char>(n), static_cast<char>(n >> 16)});
  };
  std::vector<Index::Entry> put;
  for (unsigned n = 0; n < 40'000; ++n) put.push_back({numbered(n), InRecord(n + 1)});
  Write(put);
  ASSERT_TRUE(index_->Compact().ok());
  const auto on_disk = [&] {
    uint64_t bytes = 0;
    for (const std::string& path : disk_.Live().Files()) {
      const Image image = disk_.Live();
      if (path.find(".ldb") != std::string::npos) bytes += image.Find(path)->data->size();
    }
    return bytes;
  };
  const uint64_t bytes = on_disk();
  EXPECT_NEAR(static_cast<double>(index_->Bytes()), static_cast<double>(bytes), 0.1 * bytes);

  const auto reads_of = [&](unsigned first, unsigned count) {
    env.reads = 0;
    for (unsigned n = first; n < first + count; ++n) EXPECT_EQ(Get(numbered(n)), n + 1);
    return env.reads;
  };
  EXPECT_EQ(reads_of(0, 1) + reads_of(0, 1), 1);  // the second time from memory
  EXPECT_EQ(ContentOf(*index_).size(), put.size());
  EXPECT_EQ(reads_of(0, 1), 0) << "a walk over all must not take the room of what is looked up";
  EXPECT_GT(reads_of(0, 40'000), 300);
  EXPECT_EQ(reads_of(0, 1), 1) << "its cache has a megabyte";
  env.reads = 0;
  for (unsigned n = 0; n < 40'000; n += 40) {
    ChunkRef absent = numbered(n);
    absent.digest()[0] = 'e';
    EXPECT_EQ(Get(absent), kAbsent);
  }
  EXPECT_LT(env.reads, 50) << "the filter answers for a chunk that is not there";

  std::vector<ChunkRef> erase;
  for (unsigned n = 0; n < 30'000; ++n) erase.push_back(numbered(n));
  Write({}, erase);
  EXPECT_GE(on_disk(), bytes);
  ASSERT_TRUE(index_->Compact().ok());
  EXPECT_LT(on_disk(), bytes / 3);
}

}  // namespace
}  // namespace satchel::sim
