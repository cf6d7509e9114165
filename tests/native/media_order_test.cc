// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The order in which a medium is written, operation by operation ("Order of writes" of
// docs/formats/media.md), and that a reader goes by the indexes alone. What becomes of a medium
// that is pulled out in between is in crash_states_test.cc.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunkstore/core/media/media.h"
#include "chunkstore/core/media/sealed_env.h"
#include "chunkstore/core/store/store.h"
#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

constexpr char kUuid[] = "00000000-0000-4000-8000-000000000000";
const std::string kTop = std::string(kMediaPath) + "/satchel/";

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// What was done to the medium since the journal had so many operations.
std::vector<Op> OpsOfMedium(const SimDisk& disk, size_t from) {
  std::vector<Op> ops;
  const std::vector<Op> journal = disk.Journal();
  for (size_t i = from; i < journal.size(); ++i) {
    if (journal[i].path->rfind(kTop, 0) == 0) ops.push_back(journal[i]);
  }
  return ops;
}

// What was done to a medium since it was made, in the life that the crash states are of.
std::vector<Op> LifeOfAMedium() {
  SimDisk disk(EmptyDisk());
  Promises promises;
  const Status status = RunAll(&disk, &promises);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return OpsOfMedium(disk, promises.media.from);
}

// A file that was made and is not durable yet.
struct NewFile {
  uint64_t node = 0;
  std::string path;
  uint64_t size = 0;
  bool named = false;   // its folder was synced
  bool synced = false;  // it was synced after that
};

// Each file is durable before the next is begun, and none is written after that. writes: looks at
// what is written to the file that is open.
void ExpectOneFileAtATime(const std::vector<Op>& ops,
                          const std::function<void(const NewFile&, const Op&)>& writes,
                          size_t* files) {
  NewFile open;
  for (const Op& op : ops) {
    SCOPED_TRACE(op.ToString());
    if (op.type == Op::Type::kLink) {
      EXPECT_EQ(open.node, 0u) << open.path << " is not durable yet";
      EXPECT_FALSE(op.folder) << "a folder is made";
      open = {op.target, *op.path};
      ++*files;
    } else if (op.type == Op::Type::kWrite) {
      ASSERT_EQ(op.node, open.node) << "what is durable is written into";
      writes(open, op);
      EXPECT_FALSE(open.synced);
      open.size = op.offset + op.data->size();
    } else if (op.type == Op::Type::kSync) {
      ASSERT_EQ(op.node, open.node);
      EXPECT_TRUE(open.named) << "its clusters are not durable before its name has them";
      open.synced = true;
    } else if (op.type == Op::Type::kSyncFolder && *op.path == FolderOf(open.path)) {
      if (open.synced) open = {};
      open.named = open.node != 0;
    } else {
      EXPECT_TRUE(op.type == Op::Type::kSyncFolder || op.type == Op::Type::kUnlink);
    }
  }
  EXPECT_EQ(open.node, 0u);
}

TEST(MediaOrder, EachFileIsWrittenOnceFromFrontToBackAndDurableBeforeTheNextIsBegun) {
  size_t files = 0;
  ExpectOneFileAtATime(
      LifeOfAMedium(), [](const NewFile& open, const Op& op) { EXPECT_EQ(op.offset, open.size); },
      &files);
  EXPECT_GT(files, 15u);
}

// Sealed, what is in the last block is written once more with what follows. That is all that
// differs.
TEST(MediaOrder, ASealedFileIsWrittenFromFrontToBackAndDurableBeforeTheNextIsBegun) {
  SimDisk disk(EmptyDisk());
  SealedEnv sealed(&disk, {SealKey{7}});
  std::unique_ptr<Store> store;
  std::unique_ptr<Media> media;
  ASSERT_TRUE(Store::Create(&disk, kStorePath).ok());
  ASSERT_TRUE(Store::Open(&disk, kStorePath, SmallOptions(), &store).ok());
  ASSERT_TRUE(Media::Init(&sealed, kMediaPath, kUuid).ok());
  ASSERT_TRUE(Media::Open(&sealed, kMediaPath, &media).ok());
  const size_t from = disk.Position();
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const std::string content = MakeContent(seed, 40);
    const auto source =
        MemorySource(reinterpret_cast<const uint8_t*>(content.data()), content.size());
    MediaDraft draft;
    draft.roots.resize(1);
    std::vector<ChunkRef> refs;
    uint64_t number = 0;
    uint64_t bytes = 0;
    MediaNotes notes;
    ASSERT_TRUE(store->Import(source.get(), nullptr, nullptr, draft.roots.data()).ok());
    ASSERT_TRUE(store->Reachable(draft.roots, &refs).ok());
    const Status added = store->WithChunks([&](Chunks* chunks) {
      return media->Add(chunks, refs.data(), refs.size(), 0, nullptr, &bytes, &notes);
    });
    ASSERT_TRUE(added.ok()) << added.ToString();
    ASSERT_TRUE(media->Commit(draft, 0, &number, &bytes, &notes).ok());
  }
  size_t files = 0;
  ExpectOneFileAtATime(
      OpsOfMedium(disk, from),
      [](const NewFile& open, const Op& op) {
        EXPECT_EQ(op.offset % kSealedBlock, 0u);
        EXPECT_EQ(op.data->size() % kSealedBlock, 0u);
        EXPECT_TRUE(op.offset == open.size || op.offset + kSealedBlock == open.size);
      },
      &files);
  EXPECT_GE(files, 9u);
}

TEST(MediaOrder, AGenerationIsPacksWithTheirIndexesThenManifestsThenTheCommit) {
  std::vector<std::string> made;
  size_t commits = 0;
  for (const Op& op : LifeOfAMedium()) {
    if (op.type != Op::Type::kLink) continue;
    made.push_back(op.path->substr(kTop.size()));
    if (commits == 0 && made.back() == "commits/000001.commit") {
      const std::vector<std::string> first = {"packs/000001.pack", "packs/000001.idx",
                                              "checkpoints/b-1.json", "commits/000001.commit"};
      EXPECT_EQ(made, first);
    }
    commits += EndsWith(*op.path, ".commit") ? 1 : 0;
  }
  EXPECT_GE(commits, 4u);
  EXPECT_TRUE(EndsWith(made.back(), ".commit"));
  for (size_t i = 0; i + 1 < made.size(); ++i) {
    if (!EndsWith(made[i], ".pack")) continue;
    EXPECT_EQ(made[i + 1], made[i].substr(0, made[i].size() - 5) + ".idx");
  }
}

TEST(MediaOrder, WhatACommitNamesGoesWhenTheCommitIsGoneForGood) {
  bool going = false;  // a commit file whose removal is not durable yet
  size_t removed = 0;
  for (const Op& op : LifeOfAMedium()) {
    SCOPED_TRACE(op.ToString());
    const bool of_commits = op.path->rfind(kTop + "commits", 0) == 0;
    if (op.type == Op::Type::kUnlink) {
      EXPECT_TRUE(of_commits || !going);
      going = going || of_commits;
      removed += of_commits ? 0 : 1;
    } else if (op.type == Op::Type::kSyncFolder && of_commits) {
      going = false;
    }
  }
  EXPECT_GT(removed, 3u);
}

// Counts what is read of packs.
class WatchedPack final : public ForwardingFile {
 public:
  WatchedPack(std::unique_ptr<File> file, size_t* read)
      : ForwardingFile(std::move(file)), read_(read) {}

  Status ReadAt(uint64_t offset, size_t n, void* out, size_t* got) override {
    *read_ += n;
    return ForwardingFile::ReadAt(offset, n, out, got);
  }

 private:
  size_t* const read_;
};

class WatchedEnv final : public ForwardingEnv {
 public:
  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override {
    SATCHEL_RETURN_IF_ERROR(ForwardingEnv::Open(path, mode, file));
    if (EndsWith(path, ".pack")) *file = std::make_unique<WatchedPack>(std::move(*file), &read);
    return {};
  }

  size_t read = 0;
};

TEST(MediaOrder, AReaderKnowsWhatIsThereWithoutReadingAPack) {
  const Scratch scratch;
  const std::string content = MakeContent(1, 30);
  const auto source =
      MemorySource(reinterpret_cast<const uint8_t*>(content.data()), content.size());
  std::unique_ptr<Store> store;
  std::unique_ptr<Media> media;
  TableRoot root;
  std::vector<ChunkRef> refs;
  uint64_t number = 0;
  uint64_t bytes = 0;
  MediaNotes notes;
  ASSERT_TRUE(Store::Create(PosixEnv(), scratch.path() + "/store").ok());
  ASSERT_TRUE(Store::Open(PosixEnv(), scratch.path() + "/store", SmallOptions(), &store).ok());
  ASSERT_TRUE(store->Import(source.get(), nullptr, nullptr, &root).ok());
  ASSERT_TRUE(store->Reachable({root}, &refs).ok());
  ASSERT_TRUE(Media::Init(PosixEnv(), scratch.path(), kUuid).ok());
  ASSERT_TRUE(Media::Open(PosixEnv(), scratch.path(), &media).ok());
  const Status added = store->WithChunks([&](Chunks* chunks) {
    return media->Add(chunks, refs.data(), refs.size(), 0, nullptr, &bytes, &notes);
  });
  ASSERT_TRUE(added.ok()) << added.ToString();
  MediaDraft draft;
  draft.roots = {root};
  ASSERT_TRUE(media->Commit(draft, 0, &number, &bytes, &notes).ok());
  for (const bool with_index : {true, false}) {
    WatchedEnv env;
    ASSERT_TRUE(Media::Open(&env, scratch.path(), &media).ok());
    ASSERT_EQ(media->generations().size(), 1u);
    EXPECT_EQ(media->generations()[0].why, "");
    const auto has = std::make_unique<bool[]>(refs.size());
    media->Has(refs.data(), refs.size(), has.get());
    for (size_t i = 0; i < refs.size(); ++i) EXPECT_TRUE(has[i]);
    EXPECT_EQ(env.read == 0, with_index) << env.read << " bytes of packs";
    media.reset();
    (void)PosixEnv()->Remove(scratch.path() + "/satchel/packs/000001.idx");
  }
}

// Loses a medium at the end of a commit: it was pulled out when its folder was to be synced.
class LosingEnv final : public ForwardingEnv {
 public:
  Status SyncDir(const std::string& path) override {
    gone_ = gone_ || (lose && EndsWith(path, "commits"));
    return gone_ ? Lost(path) : ForwardingEnv::SyncDir(path);
  }

  Status Remove(const std::string& path) override {
    return gone_ ? Lost(path) : ForwardingEnv::Remove(path);
  }

  void PlugIn() { lose = gone_ = false; }

  bool lose = false;

 private:
  static Status Lost(const std::string& path) {
    return Status::Make(Kind::kNotFound, "cannot find " + path, "it was pulled out");
  }

  bool gone_ = false;
};

TEST(MediaOrder, ACommitThatFailedAtItsEndKeepsItsPacks) {
  const Scratch scratch;
  LosingEnv env;
  std::unique_ptr<Store> store;
  std::unique_ptr<Media> media;
  ASSERT_TRUE(Store::Create(PosixEnv(), scratch.path() + "/store").ok());
  ASSERT_TRUE(Store::Open(PosixEnv(), scratch.path() + "/store", SmallOptions(), &store).ok());
  ASSERT_TRUE(Media::Init(&env, scratch.path(), kUuid).ok());
  ASSERT_TRUE(Media::Open(&env, scratch.path(), &media).ok());
  for (const uint32_t step : {1, 2, 3}) {
    const std::string content = MakeContent(step, 30);
    const auto source =
        MemorySource(reinterpret_cast<const uint8_t*>(content.data()), content.size());
    TableRoot root;
    std::vector<ChunkRef> refs;
    uint64_t number = 0;
    uint64_t bytes = 0;
    MediaNotes notes;
    ASSERT_TRUE(store->Import(source.get(), nullptr, nullptr, &root).ok());
    ASSERT_TRUE(store->Reachable({root}, &refs).ok());
    const Status added = store->WithChunks([&](Chunks* chunks) {
      return media->Add(chunks, refs.data(), refs.size(), 0, nullptr, &bytes, &notes);
    });
    ASSERT_TRUE(added.ok()) << added.ToString();
    MediaDraft draft;
    draft.roots = {root};
    env.lose = step == 2;
    EXPECT_EQ(media->Commit(draft, 0, &number, &bytes, &notes).ok(), step != 2);
    env.PlugIn();
  }
  ASSERT_TRUE(Media::Open(&env, scratch.path(), &media).ok());
  ASSERT_EQ(media->generations().size(), 2u);
  EXPECT_EQ(media->generations()[0].commit.generation, 3u);
  EXPECT_EQ(media->generations()[1].commit.generation, 2u);
  for (const MediaGeneration& generation : media->generations()) EXPECT_EQ(generation.why, "");
}

}  // namespace
}  // namespace satchel::sim
