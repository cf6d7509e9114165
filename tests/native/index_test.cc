// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What the index writes is what its page says: the example of docs/formats/store.md, byte by byte,
// as LevelDB itself reads it.
#include "chunkstore/core/index/index.h"

#include <gtest/gtest.h>
#include <leveldb/db.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/native/scratch.h"

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

}  // namespace
}  // namespace satchel::sim
