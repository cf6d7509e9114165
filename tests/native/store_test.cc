// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Making and opening a store, and its calls.
#include "chunkstore/core/store/store.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/small_store.h"

namespace satchel::sim {
namespace {

class StoreTest : public SmallStore {};

TEST_F(StoreTest, WhatIsGivenBackIsGoneAndTheRestIsNot) {
  options_.pack_limit = 16 + 6 * kRecord;
  Open();
  ChunkRef refs[8];
  for (unsigned i = 4; i < 12; ++i) ASSERT_TRUE(store_->Put(Bytes(BlockOf(i)), 1, refs).ok());
  ASSERT_TRUE(store_->WithChunks([](Chunks* chunks) { return chunks->Flush(); }).ok());
  ASSERT_GT(Pack(2).size(), kRecord);
  ASSERT_TRUE(store_->GiveBack().ok());
  EXPECT_TRUE(PackIs(1, Header() + Records(0, 4)));
  EXPECT_TRUE(PackIs(2, "gone"));
  EXPECT_TRUE(store_->Sync().Is(Kind::kState));
  Open();
  EXPECT_EQ(Here(), UpTo(4));
}

// Maps that this process has not seen since they were resolved: each call makes the store know its
// map, and settling points it to the frames.
TEST_F(StoreTest, SettlingLeavesEveryMapThatACallNamedWithWholeBlocks) {
  const Scratch scratch;
  Open();
  const std::string content = MakeContent(5, 70);
  const auto source = MemorySource(Bytes(content), content.size());
  TableRoot root;
  ASSERT_TRUE(store_->Import(source.get(), nullptr, nullptr, &root).ok());
  std::vector<std::unique_ptr<BlockMap>> maps(4);
  std::vector<ChunkRef> missing;
  for (size_t i = 0; i < maps.size(); ++i) {
    const std::string path = scratch.path() + "/map-" + std::to_string(i);
    ASSERT_TRUE(BlockMap::Create(path, root.blocks(), &maps[i]).ok());
    ASSERT_TRUE(store_->Resolve(root, maps[i].get(), 0, root.blocks(), &missing).ok());
  }
  Open();
  ASSERT_TRUE(store_->Resolve(root, maps[0].get(), 0, 1, &missing).ok());
  ASSERT_TRUE(store_->Resolve(root, maps[1].get(), 0, 1, &missing).ok());
  ASSERT_TRUE(store_->Place(maps[2].get(), nullptr, 0, nullptr).ok());
  std::unique_ptr<File> overlay;
  ASSERT_TRUE(disk_->Open("/overlay", OpenMode::kCreate, &overlay).ok());
  const std::string changed = BlockOf(9);
  ASSERT_TRUE(overlay->WriteAt(0, changed.data(), changed.size()).ok());
  maps[3]->MarkDirty(0);
  TableRoot after;
  ASSERT_TRUE(store_->Commit(root, maps[3].get(), overlay.get(), &after).ok());
  EXPECT_NE(after.ref, root.ref);
  std::string block(kBlockSize, '\0');
  ASSERT_TRUE(store_->Read(after, 0, kBlockSize, reinterpret_cast<uint8_t*>(block.data())).ok());
  EXPECT_EQ(block, changed);
  maps[0].reset();
  SettleReport report;
  ASSERT_TRUE(SettleQuickly(store_.get(), &report).ok());
  EXPECT_EQ(report.pinned, 0u);
  PackReader reader(disk_.get(), std::string(kStorePath) + "/packs");
  for (size_t i = 1; i < maps.size(); ++i) {
    size_t packed = 0;
    for (uint64_t number = 1; number < root.blocks(); ++number) {
      const BlockEntry entry = maps[i]->Load(number);
      if (entry.state != BlockState::kPacked) continue;
      ++packed;
      ASSERT_TRUE(reader.ReadBlock(entry.at, reinterpret_cast<uint8_t*>(block.data())).ok()) << i;
      EXPECT_EQ(block, content.substr(number * kBlockSize, kBlockSize));
    }
    EXPECT_GT(packed, 10u);
  }
}

// The chunks are in frames already, and only maps still lead into the pack.
TEST_F(StoreTest, APackThatACrashLeftGoesWhenTheMapsLeadElsewhere) {
  const Scratch scratch;
  Open();
  std::string content;
  for (unsigned i = 0; i < 4; ++i) content += BlockOf(i);
  const auto source = MemorySource(Bytes(content), content.size());
  TableRoot root;
  ASSERT_TRUE(store_->Import(source.get(), nullptr, nullptr, &root).ok());
  std::unique_ptr<BlockMap> map;
  ASSERT_TRUE(BlockMap::Create(scratch.path() + "/map", 4, &map).ok());
  std::vector<ChunkRef> missing;
  ASSERT_TRUE(store_->Resolve(root, map.get(), 0, 4, &missing).ok());
  Close();
  const std::string left = Pack(1);
  Open();
  SettleReport report;
  ASSERT_TRUE(SettleQuickly(store_.get(), &report).ok());
  ASSERT_TRUE(PackIs(1, "gone"));
  Close();
  SetPack(1, left);
  Open();
  store_->Regard(map.get());
  ASSERT_TRUE(SettleQuickly(store_.get(), &report).ok());
  EXPECT_TRUE(PackIs(1, "gone"));
  PackReader reader(disk_.get(), std::string(kStorePath) + "/packs");
  std::string block(kBlockSize, '\0');
  for (unsigned i = 0; i < 4; ++i) {
    const BlockEntry entry = map->Load(i);
    ASSERT_TRUE(reader.ReadBlock(entry.at, reinterpret_cast<uint8_t*>(block.data())).ok()) << i;
    EXPECT_EQ(block, BlockOf(i));
  }
}

TEST_F(StoreTest, APruneKeepsRootsThatAreBeingMadeAndThoseOfAttachedMaps) {
  const Scratch scratch;
  Open();
  const auto import = [&](uint64_t seed) {
    const std::string content = MakeContent(seed, 9);
    TableRoot root;
    const auto source = MemorySource(Bytes(content), content.size());
    EXPECT_TRUE(store_->Import(source.get(), nullptr, nullptr, &root).ok());
    return root;
  };
  std::unique_ptr<File> overlay;
  ASSERT_TRUE(disk_->Open("/overlay", OpenMode::kCreate, &overlay).ok());
  const auto commit = [&](BlockMap* map, const TableRoot& root, unsigned block) {
    EXPECT_TRUE(overlay->WriteAt(0, BlockOf(block).data(), kBlockSize).ok());
    map->MarkDirty(0);
    TableRoot after;
    EXPECT_TRUE(store_->Commit(root, map, overlay.get(), &after).ok());
    return after;
  };
  const TableRoot base = import(7);
  std::unique_ptr<BlockMap> made;
  ASSERT_TRUE(BlockMap::Create(scratch.path() + "/attached", base.blocks(), &made).ok());
  const std::shared_ptr<BlockMap> attached = std::move(made);
  ASSERT_TRUE(BlockMap::Create(scratch.path() + "/other", base.blocks(), &made).ok());
  store_->in_use()->Attach(attached, base);
  const TableRoot of_map = commit(attached.get(), base, 8);
  const uint64_t maker = store_->in_use()->Begin();
  const TableRoot imported = import(8);
  const TableRoot committed = commit(made.get(), base, 9);
  made.reset();
  const auto here = [&](const TableRoot& root) { return store_->Check(root, nullptr).ok(); };
  PruneReport report;
  ASSERT_TRUE(store_->Prune({}, {}, false, false, nullptr, &report).ok());
  EXPECT_TRUE(here(of_map) && here(imported) && here(committed));
  EXPECT_FALSE(here(base));
  store_->in_use()->End(maker);
  ASSERT_TRUE(store_->Prune({}, {}, false, false, nullptr, &report).ok());
  EXPECT_TRUE(here(of_map));
  EXPECT_FALSE(here(imported) || here(committed));
}

TEST_F(StoreTest, WhoReadsIsToldWhenTheIndexIsNotWhole) {
  const Image image = disk_->Live();
  for (uint64_t call = 0;; ++call) {
    Use(image);
    disk_->SetFault({Fault::Calls::kReads, call, true});
    const Status status = Store::OpenToRead(disk_.get(), kStorePath, &store_);
    if (!disk_->failed()) break;
    if (disk_->FailedCall() == "list /store/index") continue;  // LevelDB looks for files to remove
    EXPECT_TRUE(status.Is(Kind::kIo)) << disk_->FailedCall() << ": " << status.ToString();
  }
  disk_->Heal();
  EXPECT_EQ(Here(), UpTo(4));
  store_.reset();
  LoseIndex();
  const auto is_damaged = [&] {
    const Status status = Store::OpenToRead(disk_.get(), kStorePath, &store_);
    EXPECT_EQ(status.why(), "its index has to be rebuilt");
    return status.Is(Kind::kDamaged);
  };
  EXPECT_TRUE(is_damaged());
  {
    std::unique_ptr<Index> index;
    ASSERT_TRUE(Index::Open(disk_.get(), std::string(kStorePath) + "/index", &index).ok());
    ASSERT_TRUE(index->Fill({{RefOf(0), {1, 16, kBlockSize}}}).ok());
  }
  EXPECT_TRUE(is_damaged());
  Image harmed = disk_->Live();
  harmed.SetContent(std::string(kStorePath) + "/index/CURRENT", "x");
  Use(harmed);
  EXPECT_TRUE(is_damaged());
  Open();  // makes it anew
  EXPECT_EQ(Here(), UpTo(4));
}

TEST_F(StoreTest, IsMadeInAnEmptyFolderOrNotAtAll) {
  const std::string store = std::string(kStorePath) + "/store.json";
  EXPECT_TRUE(Store::Create(disk_.get(), kStorePath).Is(Kind::kExists));
  EXPECT_TRUE(Store::Open(disk_.get(), "/elsewhere", options_, &store_).Is(Kind::kNotFound));
  std::string text;
  ASSERT_TRUE(ReadFile(disk_.get(), store, 99, &text).ok());
  EXPECT_EQ(text, "{\"format\": \"satchel-store\", \"version\": 3}\n");
  Image newer = disk_->Live();
  newer.SetContent(store, "{\"format\": \"satchel-store\", \"version\": 4}\n");
  Use(newer);
  EXPECT_TRUE(Store::Open(disk_.get(), kStorePath, options_, &store_).Is(Kind::kUnsupported));
  for (uint64_t call = 0;; ++call) {
    Use(EmptyDisk());
    disk_->SetFault({Fault::Calls::kChanges, call});
    const Status status = Store::Create(disk_.get(), kStorePath);
    if (!disk_->failed()) break;
    EXPECT_TRUE(status.Is(Kind::kIo)) << disk_->FailedCall();
    EXPECT_FALSE(disk_->Exists(store)) << disk_->FailedCall();
    EXPECT_TRUE(Store::Create(disk_.get(), kStorePath).ok()) << disk_->FailedCall();
  }
  CutPower();
  Open();
  Close();
  Use(EmptyDisk());
  ASSERT_TRUE(disk_->MakeDir(kStorePath).ok());
  for (const char* name : {"packs", "other"}) {
    ASSERT_TRUE(disk_->MakeDir(std::string(kStorePath) + "/" + name).ok());
  }
  const Status status = Store::Create(disk_.get(), kStorePath);
  EXPECT_TRUE(status.Is(Kind::kExists));
  EXPECT_EQ(status.why(), "the folder has other things in it, other for one");
  disk_->SetFault({Fault::Calls::kReads, disk_->Calls(Fault::Calls::kReads)});
  EXPECT_TRUE(Store::Create(disk_.get(), kStorePath).Is(Kind::kIo));
  disk_->Heal();
  ASSERT_TRUE(disk_->RemoveDir(std::string(kStorePath) + "/other").ok());
  EXPECT_TRUE(Store::Create(disk_.get(), kStorePath).ok());
}

// Remembers the folders that are synced.
class SyncedFolders : public satchel::sim::ForwardingEnv {
 public:
  Status SyncDir(const std::string& path) override {
    last = path;
    return path == "/" || path == "." ? Status() : ForwardingEnv::SyncDir(path);
  }

  std::string last;
};

TEST(StoreFolders, OneWriterOrManyReadersHaveIt) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/store";
  SyncedFolders env;
  ASSERT_TRUE(Store::Create(&env, path).ok());
  EXPECT_EQ(env.last, scratch.path());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch.path());
  EXPECT_TRUE(Store::Create(&env, "beside").ok());
  EXPECT_EQ(env.last, ".");
  std::filesystem::current_path(before);
  std::unique_ptr<Store> one;
  std::unique_ptr<Store> two;
  EXPECT_TRUE(Store::OpenToRead(PosixEnv(), path, &one).Is(Kind::kDamaged));
  ASSERT_TRUE(Store::Open(PosixEnv(), path, {}, &one).ok());
  for (const auto& open : {&Store::OpenToRead, &Store::OpenToRelieve}) {
    const Status status = open(PosixEnv(), path, &two);
    EXPECT_TRUE(status.Is(Kind::kLocked));
    EXPECT_EQ(status.what(), "cannot open store " + path);
  }
  EXPECT_TRUE(Store::Open(PosixEnv(), path, {}, &two).Is(Kind::kLocked));
  one.reset();
  ASSERT_TRUE(Store::OpenToRead(PosixEnv(), path, &one).ok());
  EXPECT_TRUE(Store::OpenToRead(PosixEnv(), path, &two).ok());
  EXPECT_TRUE(Store::OpenToRelieve(PosixEnv(), path, &two).Is(Kind::kLocked));
}

TEST(StoreFolders, AnExportedFileIsThereWholeOrNotAtAll) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/store";
  SyncedFolders env;
  ASSERT_TRUE(Store::Create(&env, path).ok());
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(&env, path, {}, &store).ok());
  const std::string content = MakeContent(1, 100);
  TableRoot root;
  ASSERT_TRUE(
      store->Import(MemorySource(Bytes(content), content.size()).get(), nullptr, nullptr, &root)
          .ok());
  const std::string out = scratch.path() + "/out";
  const auto names = [&] {
    std::vector<std::string> found;
    EXPECT_TRUE(env.List(scratch.path(), &found).ok());
    return found;
  };
  const auto stop = [](uint64_t, uint64_t) { return false; };
  EXPECT_TRUE(store->ExportFile(root, out, stop).Is(Kind::kCancelled));
  EXPECT_EQ(names(), std::vector<std::string>{"store"});
  ASSERT_TRUE(env.MakeDir(out + "/folder/").ok() || env.MakeDir(out).ok());
  EXPECT_FALSE(store->ExportFile(root, out, nullptr).ok());
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "store"}));
  ASSERT_TRUE(env.RemoveDir(out).ok());
  ASSERT_TRUE(store->ExportFile(root, out, nullptr).ok());
  EXPECT_EQ(env.last, scratch.path());
  std::string back;
  ASSERT_TRUE(ReadFile(&env, out, content.size(), &back).ok());
  EXPECT_TRUE(back == content);
  EXPECT_EQ(names(), (std::vector<std::string>{"out", "store"}));
  TableRoot missing = root;
  missing.ref.bytes[0] ^= 1;
  EXPECT_TRUE(store->ExportFile(missing, out, nullptr).Is(Kind::kMissing));
  EXPECT_TRUE(store->Check(root, nullptr).ok());
  EXPECT_TRUE(store->Check(missing, nullptr).Is(Kind::kMissing));
}

TEST_F(StoreTest, TakesRecordsOfAnotherAndTellsWhatIsMissing) {
  Open();
  const std::string content = MakeContent(3, 100);
  const auto source = MemorySource(Bytes(content), content.size());
  TableRoot root;
  ASSERT_TRUE(store_->Import(source.get(), nullptr, nullptr, &root).ok());
  std::vector<ChunkRef> refs{RefOf(0)};
  ASSERT_TRUE(store_->Reachable({root}, &refs).ok());
  EXPECT_EQ(refs.front(), root.ref);
  CutPower();  // the import is durable
  Open();
  std::string records;
  ASSERT_TRUE(store_->Records(refs.data(), refs.size(), &records).ok());

  SimDisk other_disk(EmptyDisk());
  ASSERT_TRUE(Store::Create(&other_disk, kStorePath).ok());
  std::unique_ptr<Store> other;
  ASSERT_TRUE(Store::Open(&other_disk, kStorePath, options_, &other).ok());
  std::vector<ChunkRef> missing{RefOf(0)};
  ASSERT_TRUE(other->Missing({root}, &missing).ok());
  EXPECT_EQ(missing, std::vector<ChunkRef>{root.ref});
  EXPECT_TRUE(other->Reachable({root}, &missing).Is(Kind::kMissing));
  std::vector<ChunkRef> admitted;
  ASSERT_TRUE(other->Admit(Bytes(records), records.size(), &admitted).ok());
  EXPECT_EQ(admitted, refs);
  ASSERT_TRUE(other->Missing({root}, &missing).ok());
  EXPECT_TRUE(missing.empty());
  std::string back(content.size(), '\0');
  auto* bytes = reinterpret_cast<uint8_t*>(back.data());
  ASSERT_TRUE(other->Read(root, 0, back.size(), bytes).ok());
  EXPECT_TRUE(back == content);
  EXPECT_FALSE(other->Admit(Bytes("no record at all"), 16, &admitted).ok());

  const ChunkRef asked[] = {kZeroRef, refs[0], RefOf(5), kZeroRef};
  bool has[4] = {false, false, true, false};
  ASSERT_TRUE(other->Has(asked, 4, has).ok());
  EXPECT_TRUE(has[0] && has[1] && !has[2] && has[3]);
  EXPECT_TRUE(other->Get(RefOf(5), bytes).Is(Kind::kMissing));
}

}  // namespace
}  // namespace satchel::sim
