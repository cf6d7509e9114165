// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Every byte of a small store and of a small medium is changed, one at a time. What is read then is
// right, or an error; a byte of a pack is named by verify; the store can be mended by storing the
// same again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/media/media.h"
#include "chunkstore/core/store/store.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

constexpr uint64_t kBlocks = 9;
constexpr char kUuid[] = "00000000-0000-4000-8000-000000000000";

uint8_t* Bytes(std::string* text) { return reinterpret_cast<uint8_t*>(text->data()); }

// A store with a volume and chunks that were removed again, and a medium with the volume.
class SmallDisk {
 public:
  Status Make() {
    SimDisk disk(EmptyDisk());
    std::unique_ptr<Store> store;
    SATCHEL_RETURN_IF_ERROR(Store::Create(&disk, kStorePath));
    SATCHEL_RETURN_IF_ERROR(Store::Open(&disk, kStorePath, SmallOptions(), &store));
    removed = MakeContent(2, 6);
    removed_refs.resize(6);
    SATCHEL_RETURN_IF_ERROR(store->Put(Bytes(&removed), 6, removed_refs.data()));
    SATCHEL_RETURN_IF_ERROR(store->Sync());
    store.reset();
    SATCHEL_RETURN_IF_ERROR(Store::Open(&disk, kStorePath, SmallOptions(), &store));
    content = MakeContent(3, kBlocks);
    const auto source = MemorySource(Bytes(&content), content.size());
    SATCHEL_RETURN_IF_ERROR(store->Import(source.get(), nullptr, nullptr, &root));
    PruneReport report;
    SATCHEL_RETURN_IF_ERROR(store->Prune({root}, {}, false, false, nullptr, &report));
    SATCHEL_RETURN_IF_ERROR(store->Reachable({root}, &refs));
    SATCHEL_RETURN_IF_ERROR(Media::Init(&disk, kMediaPath, kUuid));
    std::unique_ptr<Media> media;
    SATCHEL_RETURN_IF_ERROR(Media::Open(&disk, kMediaPath, &media));
    uint64_t written = 0;
    MediaNotes notes;
    SATCHEL_RETURN_IF_ERROR(store->WithChunks([&](Chunks* chunks) {
      return media->Add(chunks, refs.data(), refs.size(), 0, nullptr, &written, &notes);
    }));
    MediaDraft draft;
    draft.roots = {root};
    uint64_t generation = 0;
    uint64_t freed = 0;
    SATCHEL_RETURN_IF_ERROR(media->Commit(draft, 0, &generation, &freed, &notes));
    store.reset();
    image = disk.Live();
    return {};
  }

  Status Settle() {
    SimDisk disk(image);
    std::unique_ptr<Store> store;
    SATCHEL_RETURN_IF_ERROR(Store::Open(&disk, kStorePath, SmallOptions(), &store));
    SettleReport report;
    SATCHEL_RETURN_IF_ERROR(SettleQuickly(store.get(), &report));
    store.reset();
    image = disk.Live();
    return report.chunks == refs.size() ? Status() : Status::Make(Kind::kState, "some are left");
  }

  Image image;
  TableRoot root;
  std::string content;
  std::vector<ChunkRef> refs;
  std::string removed;  // blocks that a prune has removed
  std::vector<ChunkRef> removed_refs;
};

class Corruption : public testing::Test {
 protected:
  void SetUp() override {
    const Status status = small_.Make();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }

  // Calls `look` once for each changed byte of the files whose path `chosen` wants.
  void FlipAll(const std::function<bool(const std::string&)>& chosen,
               const std::function<void(SimDisk*, const std::string&, size_t)>& look) {
    const bool every_bit = std::getenv("SATCHEL_NIGHTLY") != nullptr;
    size_t flips = 0;
    for (const std::string& path : small_.image.Files()) {
      if (!chosen(path)) continue;
      const std::string whole = *small_.image.Find(path)->data;
      for (size_t i = 0; i < whole.size() && !HasFailure(); ++i) {
        for (unsigned bit = 0; bit < 8; ++bit) {
          if (!every_bit && bit != (i * 5 + i / 8) % 8) continue;
          SCOPED_TRACE(path + " byte " + std::to_string(i) + " bit " + std::to_string(bit));
          std::string harmed = whole;
          harmed[i] = static_cast<char>(harmed[i] ^ (1 << bit));
          Image image = small_.image;
          image.SetContent(path, std::move(harmed));
          SimDisk disk(std::move(image));
          look(&disk, path, i);
          ++flips;
        }
      }
    }
    printf("%zu changed bytes\n", flips);
    EXPECT_GT(flips, 40u);
  }

  // Every block of the volume, each by itself. How many could not be had.
  size_t ReadAll(Store* store) {
    size_t errors = 0;
    std::string block(kBlockSize, '\0');
    for (uint64_t i = 0; i < kBlocks; ++i) {
      const uint64_t offset = i * kBlockSize;
      const Status status = store->Read(small_.root, offset, kBlockSize, Bytes(&block));
      errors += status.ok() ? 0 : 1;
      if (status.ok()) {
        EXPECT_EQ(block, small_.content.substr(offset, kBlockSize)) << "WRONG bytes";
      } else {
        EXPECT_FALSE(status.what().empty());
      }
    }
    return errors;
  }

  // The store believes to have no chunk that it cannot give.
  void ExpectNoFalseClaims(Store* store) {
    for (size_t i = 0; i < small_.removed_refs.size(); ++i) {
      bool has = false;
      std::string block(kBlockSize, '\0');
      const Status asked = store->Has(&small_.removed_refs[i], 1, &has);
      if (!asked.ok() || !has) continue;
      const Status status = store->Get(small_.removed_refs[i], Bytes(&block));
      EXPECT_TRUE(status.ok()) << "a chunk that was removed is said to be there: "
                               << status.ToString();
    }
  }

  // What was lost comes back when it is stored again.
  void ExpectMended(Store* store) {
    const auto source = MemorySource(Bytes(&small_.content), small_.content.size());
    TableRoot root;
    Status status = store->Import(source.get(), nullptr, nullptr, &root);
    ASSERT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(root.ref, small_.root.ref);
    EXPECT_EQ(ReadAll(store), 0u) << "storing it again has not mended it";
  }

  // Of every pack of the store, which consist of pieces of at most `unit` bytes.
  void ExpectPackBytesNamed(uint64_t unit) {
    const auto packs = [](const std::string& path) { return path.rfind("/store/packs/", 0) == 0; };
    FlipAll(packs, [this, unit](SimDisk* disk, const std::string& path, size_t at) {
      std::unique_ptr<Store> store;
      const Status opened = Store::Open(disk, kStorePath, SmallOptions(), &store);
      ASSERT_TRUE(opened.ok()) << opened.ToString();
      VerifyReport report;
      const Status status = store->Verify(nullptr, &report);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_FALSE(report.bad.empty()) << "verify finds nothing";
      EXPECT_EQ("/store/packs/" + PackName(report.bad[0].pack), path);
      EXPECT_LE(report.bad[0].offset, at);
      EXPECT_GT(report.bad[0].offset + unit, at);
      const size_t errors = ReadAll(store.get());
      EXPECT_TRUE(at >= kPackHeaderSize || errors == 0);
      ExpectMended(store.get());
    });
  }

  SmallDisk small_;
};

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

TEST_F(Corruption, EveryByteOfAPackIsNamedByVerify) { ExpectPackBytesNamed(kMaxRecordSize); }

TEST_F(Corruption, EveryByteOfASettledPackIsNamedByVerify) {
  const Status status = small_.Settle();
  ASSERT_TRUE(status.ok()) << status.ToString();
  ExpectPackBytesNamed(kMaxFrameSize);
}

TEST_F(Corruption, NoByteOfTheIndexLeadsToAWrongChunk) {
  const auto index = [](const std::string& path) { return path.rfind("/store/index/", 0) == 0; };
  FlipAll(index, [this](SimDisk* disk, const std::string&, size_t) {
    std::unique_ptr<Store> store;
    const Status opened = Store::Open(disk, kStorePath, SmallOptions(), &store);
    if (!opened.ok()) {
      EXPECT_TRUE(opened.Is(Kind::kDamaged)) << opened.ToString();
      return;
    }
    VerifyReport report;
    const Status verified = store->Verify(nullptr, &report);
    if (verified.ok()) {
      EXPECT_TRUE(report.bad.empty());
      ExpectNoFalseClaims(store.get());
      EXPECT_EQ(ReadAll(store.get()), 0u);
      return;
    }
    EXPECT_TRUE(verified.Is(Kind::kDamaged)) << verified.ToString();
    (void)ReadAll(store.get());
    const Status rebuilt = store->RebuildIndex(nullptr);
    ASSERT_TRUE(rebuilt.ok()) << rebuilt.ToString();
    EXPECT_EQ(ReadAll(store.get()), 0u);
  });
}

TEST_F(Corruption, EveryByteOfADescriptionIsNoticed) {
  const auto chosen = [](const std::string& path) { return EndsWith(path, ".json"); };
  FlipAll(chosen, [](SimDisk* disk, const std::string& path, size_t at) {
    std::unique_ptr<Store> store;
    std::unique_ptr<Media> media;
    const bool of_store = path.rfind(kStorePath, 0) == 0;
    const Status opened = of_store ? Store::Open(disk, kStorePath, SmallOptions(), &store)
                                   : Media::Open(disk, kMediaPath, &media);
    // What follows the version is read by whoever wants to know it.
    const size_t version = disk->Live().Find(path)->data->find(", \"uuid\": ") + 2;
    if (!of_store && opened.ok() && at > version) return;
    EXPECT_TRUE(opened.Is(Kind::kDamaged) || opened.Is(Kind::kUnsupported)) << opened.ToString();
  });
}

TEST_F(Corruption, NoByteOfACommitFileMakesAnotherGeneration) {
  const auto commits = [](const std::string& path) {
    return path.rfind("/media/satchel/commits/", 0) == 0;
  };
  FlipAll(commits, [](SimDisk* disk, const std::string&, size_t) {
    std::unique_ptr<Media> media;
    const Status opened = Media::Open(disk, kMediaPath, &media);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    EXPECT_TRUE(media->generations().empty());
  });
}

TEST_F(Corruption, NoByteOfAMediumLeadsToAWrongChunk) {
  const auto chosen = [](const std::string& path) {
    return path.rfind("/media/satchel/packs/", 0) == 0;
  };
  FlipAll(chosen, [this](SimDisk* disk, const std::string& path, size_t at) {
    std::unique_ptr<Media> media;
    const Status opened = Media::Open(disk, kMediaPath, &media);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    std::string data;
    MediaNotes notes;
    const Status status = media->Records(small_.refs.data(), small_.refs.size(), &data, &notes);
    ASSERT_TRUE(status.ok()) << status.ToString();
    size_t whole = 0;
    std::string block(kBlockSize, '\0');
    for (size_t begin = 0; begin < data.size(); ++whole) {
      RecordView record;
      ASSERT_TRUE(ParseRecord(Bytes(&data) + begin, data.size() - begin, &record).ok());
      ASSERT_TRUE(VerifyRecord(record, Bytes(&block)).ok());
      begin += record.size();
    }
    const bool content = EndsWith(path, ".pack") && at >= kPackHeaderSize;
    EXPECT_EQ(whole, small_.refs.size() - (content ? 1 : 0));
    EXPECT_TRUE(!content || notes.damaged.size() == 1) << "the damaged chunk is not named";
  });
}

}  // namespace
}  // namespace satchel::sim
