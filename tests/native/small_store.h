// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A store of four chunks in one pack on a SimDisk, for tests that change its files and open it.
#ifndef SATCHEL_TESTS_NATIVE_SMALL_STORE_H_
#define SATCHEL_TESTS_NATIVE_SMALL_STORE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunkstore/core/format/hash.h"
#include "chunkstore/core/index/index.h"
#include "chunkstore/core/store/store.h"
#include "tests/native/workload.h"

namespace satchel::sim {

constexpr unsigned kKnown = 16;  // chunks that the tests use
constexpr uint64_t kRecord = kMaxRecordSize;

inline std::string BlockOf(unsigned number) {
  std::string block = std::to_string(number) + " ";
  while (block.size() < kBlockSize) block += block;
  block.resize(kBlockSize);
  return block;
}

inline const uint8_t* Bytes(const std::string& text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

inline ChunkRef RefOf(unsigned number) { return HashBlock(Bytes(BlockOf(number))); }

inline std::string RecordOf(unsigned number) {
  std::string record;
  AppendRecord(RefOf(number), Bytes(BlockOf(number)), 0, &record);
  return record;
}

inline std::string Records(unsigned first, unsigned end) {
  std::string records;
  for (unsigned i = first; i < end; ++i) records += RecordOf(i);
  return records;
}

inline std::string Header(char version = 2) {
  std::string header("SATPACK\0\2\0\0\0\0\0\0\0", 16);
  header[8] = version;
  return header;
}

inline std::string PackPath(uint32_t pack) {
  return std::string(kStorePath) + "/packs/" + PackName(pack);
}

class SmallStore : public testing::Test {
 protected:
  SmallStore() { options_.level = 0; }

  // A store with the chunks 0 to 3 in its first pack.
  void SetUp() override {
    Use(EmptyDisk());
    ASSERT_TRUE(Store::Create(disk_.get(), kStorePath).ok());
    Open();
    for (unsigned i = 0; i < 4; ++i) Put(i);
    Close();
    ASSERT_TRUE(PackIs(1, Header() + Records(0, 4)));
  }

  Status TryOpen() { return Store::Open(disk_.get(), kStorePath, options_, &store_); }

  void Open() {
    store_.reset();
    const Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  void Close() {
    store_.reset();
    Use(disk_->Live());
  }

  void Use(Image image) {
    store_.reset();
    disk_ = std::make_unique<SimDisk>(std::move(image));
  }

  // Continue with the disk that a power cut leaves.
  void CutPower() {
    store_.reset();
    Durability durability(disk_->base());
    for (const Op& op : disk_->Journal()) durability.Advance(op);
    Random random(1);
    Use(durability.Crash(0, &random));
  }

  void Put(unsigned number) {
    ChunkRef ref;
    ASSERT_TRUE(store_->Put(Bytes(BlockOf(number)), 1, &ref).ok());
    ASSERT_TRUE(store_->Sync().ok());
  }

  // The content of a pack; "gone" if it does not exist.
  std::string Pack(uint32_t pack) {
    const Image image = disk_->Live();
    const Node* node = image.Find(PackPath(pack));
    return node == nullptr ? "gone" : *node->data;
  }

  testing::AssertionResult PackIs(uint32_t pack, const std::string& expected) {
    const std::string content = Pack(pack);
    if (content == expected) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "pack " << pack << " has " << content.size()
                                       << " bytes, not " << expected.size() << ", or others";
  }

  void SetPack(uint32_t pack, const std::string& content) {
    (void)disk_->Remove(PackPath(pack));
    std::unique_ptr<File> file;
    ASSERT_TRUE(disk_->Open(PackPath(pack), OpenMode::kCreate, &file).ok());
    ASSERT_TRUE(file->WriteAt(0, content.data(), content.size()).ok());
    file.reset();
    Use(disk_->Live());
  }

  void LoseIndex() {
    ASSERT_TRUE(Index::Destroy(disk_.get(), std::string(kStorePath) + "/index").ok());
    Use(disk_->Live());
  }

  // The numbers of the chunks that are here, whole, and found again.
  std::vector<unsigned> Here() {
    std::vector<unsigned> here;
    for (unsigned i = 0; i < kKnown; ++i) {
      const ChunkRef ref = RefOf(i);
      bool has = false;
      EXPECT_TRUE(store_->Has(&ref, 1, &has).ok());
      if (!has) continue;
      std::string block(kBlockSize, '\0');
      EXPECT_TRUE(store_->Get(ref, reinterpret_cast<uint8_t*>(block.data())).ok()) << i;
      EXPECT_EQ(block, BlockOf(i));
      here.push_back(i);
    }
    return here;
  }

  std::unique_ptr<SimDisk> disk_;
  ChunkOptions options_;
  std::unique_ptr<Store> store_;
};

using Numbers = std::vector<unsigned>;

inline Numbers UpTo(unsigned end) {
  Numbers numbers;
  for (unsigned i = 0; i < end; ++i) numbers.push_back(i);
  return numbers;
}

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_SMALL_STORE_H_
