// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Walks, collections and rewriters of tables of one to three levels, compared with a plain list of
// blocks.
#include "chunkstore/core/format/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "chunkstore/core/format/chunk_status.h"
#include "chunkstore/core/format/hash.h"

namespace satchel::sim {
namespace {

// The reference of a block of data; 0 is the zero reference.
ChunkRef Data(uint64_t number) {
  ChunkRef ref{};
  std::memcpy(ref.bytes, &number, sizeof number);
  return ref;
}

// Encoded pages by their names. Counts reads and writes.
class Pages : public PageSource, public PageSink {
 public:
  Status GetPage(const ChunkRef& ref, unsigned level, std::shared_ptr<const Page>* page) override {
    ++reads;
    const auto found = blocks_.find(ref);
    if (found == blocks_.end()) return MissingChunk(ref);
    auto decoded = std::make_shared<Page>();
    SATCHEL_RETURN_IF_ERROR(DecodePage(ref, Bytes(found->second), level, decoded.get()));
    *page = decoded;
    return {};
  }

  Status PutPage(const Page& page, unsigned level, ChunkRef* ref) override {
    ++writes;
    if (full) return Status::Make(Kind::kFull, "no room");
    *ref = Add(page, level);
    return {};
  }

  ChunkRef Add(const Page& page, unsigned level) {
    if (page.IsZero()) return kZeroRef;
    std::string block(kBlockSize, '\xff');
    EncodePage(page, level, reinterpret_cast<uint8_t*>(block.data()));
    const ChunkRef ref = HashBlock(Bytes(block));
    blocks_[ref] = block;
    return ref;
  }

  // The table of these blocks of a volume of `blocks`, made from the bottom up.
  TableRoot Make(uint64_t blocks, const std::map<uint64_t, uint64_t>& data) {
    std::map<uint64_t, ChunkRef> refs;
    for (const auto& [number, name] : data) refs[number] = Data(name);
    for (unsigned level = 0; level <= RootLevel(blocks); ++level) {
      std::map<uint64_t, Page> pages;
      for (const auto& [number, ref] : refs) pages[number / kPageFanout].refs[number % 64] = ref;
      refs.clear();
      for (const auto& [number, page] : pages) refs[number] = Add(page, level);
    }
    return {refs.empty() ? kZeroRef : refs.at(0), blocks * kBlockSize};
  }

  void Lose(const ChunkRef& ref) { blocks_.erase(ref); }

  int reads = 0;
  int writes = 0;
  bool full = false;

 private:
  static const uint8_t* Bytes(const std::string& block) {
    return reinterpret_cast<const uint8_t*>(block.data());
  }

  std::map<ChunkRef, std::string> blocks_;
};

std::vector<ChunkRef> RefsOf(const RefSet& set) {
  std::vector<ChunkRef> refs;
  for (const auto& entry : set.entries()) refs.push_back(entry.ref);
  return refs;
}

Status Stop() { return Status::Make(Kind::kState, "enough"); }

class Table : public testing::Test {
 protected:
  // Return the name of each block of the visited pages, 0 for the zero reference. Check that the
  // visits are in order, and count the blocks of on_zero.
  std::map<uint64_t, uint64_t> Walk(const TableRoot& root, uint64_t first, uint64_t count) {
    std::map<uint64_t, uint64_t> found;
    TableVisitor visitor;
    uint64_t next = first;
    visitor.on_blocks = [&](uint64_t from, const ChunkRef* refs, uint32_t n) {
      EXPECT_EQ(from, next);
      EXPECT_TRUE(n > 0 && n <= kPageFanout) << n;
      for (uint32_t i = 0; i < n; ++i) std::memcpy(&found[from + i], refs[i].bytes, 8);
      next = from + n;
      return Status();
    };
    visitor.on_zero = [&](uint64_t from, uint64_t n) {
      EXPECT_EQ(from, next);
      EXPECT_GT(n, 0u);
      next = from + n;
      zeros_ += n;
      return Status();
    };
    EXPECT_TRUE(WalkTable(&pages_, root, first, count, visitor).ok());
    return found;
  }

  Pages pages_;
  uint64_t zeros_ = 0;  // zero blocks that were visited
};

TEST_F(Table, APageIsAsItsPageOfTheFormatsSays) {
  Page page{};
  EXPECT_TRUE(page.IsZero());
  page.refs[63] = Data(0x6261);
  EXPECT_FALSE(page.IsZero());
  std::string block(kBlockSize, '\xff');
  auto* bytes = reinterpret_cast<uint8_t*>(block.data());
  EncodePage(page, 3, bytes);
  std::string expected(kBlockSize, '\0');
  expected.replace(0, 6, "SATT\1\3");
  expected.replace(16 + 63 * 52, 2, "ab");
  EXPECT_EQ(block, expected);
  EXPECT_TRUE(IsPage(bytes));
  Page decoded{};
  EXPECT_TRUE(DecodePage(kZeroRef, bytes, 3, &decoded).ok());
  EXPECT_EQ(std::memcmp(&decoded, &page, sizeof page), 0);
  EXPECT_TRUE(DecodePage(kZeroRef, bytes, 2, &decoded).Is(Kind::kInvalid));
  for (size_t i = 0; i < 6; ++i) {
    bytes[i] ^= 1;
    EXPECT_EQ(IsPage(bytes), i == 5) << i;
    EXPECT_TRUE(DecodePage(kZeroRef, bytes, 3, &decoded).Is(Kind::kInvalid)) << i;
    bytes[i] ^= 1;
  }
}

TEST_F(Table, TheRootHasTheLevelThatTheBlocksNeed) {
  const std::vector<std::pair<uint64_t, unsigned>> levels{
      {0, 0}, {1, 0}, {64, 0}, {65, 1}, {4096, 1}, {4097, 2}, {262144, 2}, {262145, 3}};
  for (const auto& [blocks, level] : levels) EXPECT_EQ(RootLevel(blocks), level) << blocks;
  const TableRoot largest{kZeroRef, kMaxVolumeSize};
  const TableRoot larger{kZeroRef, kMaxVolumeSize + 1};
  EXPECT_TRUE(CheckRoot(largest).ok());
  EXPECT_TRUE(CheckRoot(larger).Is(Kind::kUsage));
  EXPECT_TRUE(WalkTable(&pages_, larger, 0, 1, {}).Is(Kind::kUsage));
  EXPECT_EQ(Walk(largest, largest.blocks() - 1, 9).size() + zeros_, 1u);
}

TEST_F(Table, AWalkVisitsTheBlocksOfTheRangeInOrder) {
  for (const uint64_t blocks : {1, 64, 65, 130, 4096, 4097, 9000}) {
    std::map<uint64_t, uint64_t> data;
    for (const uint64_t block : {0, 5, 63, 64, 129, 4095, 4096, 8191, 8192, 8999}) {
      if (block < blocks) data[block] = block + 1;
    }
    const TableRoot root = pages_.Make(blocks, data);
    for (const uint64_t first : {0, 1, 5, 63, 64, 65, 4095, 4096, 8191, 9000}) {
      for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{64}, uint64_t{4096}, ~0ul}) {
        SCOPED_TRACE(testing::Message() << blocks << " blocks, " << first << " + " << count);
        const uint64_t end = first < blocks ? first + std::min(count, blocks - first) : first;
        zeros_ = 0;
        std::map<uint64_t, uint64_t> found = Walk(root, first, count);
        EXPECT_EQ(found.size() + zeros_, end - first);
        for (auto at = found.begin(); at != found.end();) {
          at = at->second == 0 ? found.erase(at) : std::next(at);
        }
        EXPECT_EQ(found,
                  (std::map<uint64_t, uint64_t>{data.lower_bound(first), data.lower_bound(end)}));
      }
    }
  }
}

TEST_F(Table, AWalkReadsOnlyPagesOfTheRangeAndEndsWithTheFirstError) {
  const TableRoot root = pages_.Make(9000, {{0, 1}, {100, 2}, {5000, 3}, {8999, 4}});
  TableVisitor visitor;
  int zeros = 0;
  int blocks = 0;
  visitor.on_blocks = [&](uint64_t, const ChunkRef*, uint32_t) {
    return ++blocks < 2 ? Status() : Stop();
  };
  EXPECT_TRUE(WalkTable(&pages_, root, 5000, 1, visitor).ok());
  EXPECT_EQ(pages_.reads, 3);
  EXPECT_TRUE(WalkTable(&pages_, root, 0, 9000, visitor).Is(Kind::kState));
  EXPECT_EQ(blocks, 2);
  visitor.on_zero = [&](uint64_t, uint64_t) { return ++zeros < 2 ? Status() : Stop(); };
  blocks = -99;
  EXPECT_TRUE(WalkTable(&pages_, root, 0, 9000, visitor).Is(Kind::kState));
  EXPECT_EQ(zeros, 2);
  visitor.on_zero = nullptr;
  int met = 0;
  blocks = -99;
  visitor.on_page = [&](const ChunkRef&, bool* descend) {
    *descend = ++met != 2;
    return met < 5 ? Status() : Stop();
  };
  pages_.reads = 0;
  EXPECT_TRUE(WalkTable(&pages_, root, 0, 9000, visitor).Is(Kind::kState));
  EXPECT_EQ(std::tuple(met, pages_.reads, blocks), std::tuple(5, 3, -98));
}

TEST_F(Table, EachPageAndChunkIsCollectedOnceAPageBeforeWhatIsUnderIt) {
  const TableRoot one = pages_.Make(130, {{0, 7}, {1, 8}, {2, 7}, {129, 9}});
  const TableRoot two = pages_.Make(130, {{0, 7}, {1, 8}, {2, 7}, {64, 5}});
  const ChunkRef shared = pages_.Make(64, {{0, 7}, {1, 8}, {2, 7}}).ref;
  const ChunkRef last = pages_.Make(64, {{1, 9}}).ref;
  const ChunkRef other = pages_.Make(64, {{0, 5}}).ref;
  RefSet refs;
  EXPECT_TRUE(CollectReachable(&pages_, {one, two}, false, &refs).ok());
  EXPECT_EQ(RefsOf(refs), (std::vector<ChunkRef>{one.ref, shared, Data(7), Data(8), last, Data(9),
                                                 two.ref, other, Data(5)}));
  std::set<ChunkRef> here{Data(7), Data(8)};
  const HasChunks has = [&](const ChunkRef* found, size_t n, bool* is_here) {
    for (size_t i = 0; i < n; ++i) is_here[i] = here.count(found[i]) != 0;
    return here.empty() ? Stop() : Status();
  };
  std::vector<ChunkRef> missing{kZeroRef};
  EXPECT_TRUE(CollectMissing(&pages_, {one, two}, has, &missing).ok());
  EXPECT_EQ(missing, (std::vector<ChunkRef>{Data(9), Data(5)}));

  pages_.Lose(last);
  refs = {};
  EXPECT_TRUE(CollectReachable(&pages_, {one, two}, false, &refs).Is(Kind::kMissing));
  refs = {};
  EXPECT_TRUE(CollectReachable(&pages_, {one, two}, true, &refs).ok());
  EXPECT_EQ(RefsOf(refs), (std::vector<ChunkRef>{one.ref, shared, Data(7), Data(8), last, two.ref,
                                                 other, Data(5)}));
  EXPECT_TRUE(CollectMissing(&pages_, {one, two}, has, &missing).ok());
  EXPECT_EQ(missing, (std::vector<ChunkRef>{last, Data(5)}));
  here.clear();
  EXPECT_TRUE(CollectMissing(&pages_, {one}, has, &missing).Is(Kind::kState));
}

TEST_F(Table, ARewriterMakesTheTableOfTheNewLeavesAndTouchesOnlyTheWayToThem) {
  for (const uint64_t blocks : {64, 65, 4096, 300'000}) {
    SCOPED_TRACE(blocks);
    std::map<uint64_t, uint64_t> data;
    for (uint64_t block = 0; block < blocks; block += 500) data[block] = block + 1;
    const TableRoot before = pages_.Make(blocks, data);
    for (const TableRoot& old : {before, TableRoot{kZeroRef, before.size}}) {
      std::map<uint64_t, uint64_t> wanted = old.ref.IsZero() ? decltype(data){} : data;
      pages_.reads = pages_.writes = 0;
      TableRewriter rewriter(&pages_, &pages_, old);
      std::set<std::pair<unsigned, uint64_t>> way;  // level and number of each page above a leaf
      for (const uint64_t leaf : {0, 1, 63, 64, 4095, 4096, 4687}) {
        if (leaf >= old.leaves()) continue;
        const uint64_t first = leaf * kPageFanout;
        wanted.erase(wanted.lower_bound(first), wanted.lower_bound(first + kPageFanout));
        if (leaf != 64) wanted[first] = wanted[first + 1] = leaf + 10;
        const Page page = leaf == 64 ? Page{} : Page{{Data(leaf + 10), Data(leaf + 10)}};
        ASSERT_TRUE(rewriter.SetLeaf(leaf, pages_.Add(page, 0)).ok());
        for (unsigned level = 1; level <= RootLevel(blocks); ++level) {
          way.emplace(level, leaf >> (6 * level));
        }
      }
      TableRoot made;
      ASSERT_TRUE(rewriter.Finish(&made).ok());
      EXPECT_EQ(pages_.writes, static_cast<int>(way.size()));
      EXPECT_EQ(pages_.reads, old.ref.IsZero() ? 0 : static_cast<int>(way.size()));
      const TableRoot expected = pages_.Make(blocks, wanted);
      EXPECT_EQ(made.ref, expected.ref);
      EXPECT_EQ(made.size, expected.size);
    }
  }
}

TEST_F(Table, ARewriterTellsOfAPageThatIsMissingOrCannotBePut) {
  const TableRoot root = pages_.Make(300'000, {{0, 1}, {299'999, 2}});
  TableRoot made;
  pages_.full = true;
  TableRewriter full(&pages_, &pages_, root);
  EXPECT_TRUE(full.SetLeaf(0, Data(3)).ok());
  EXPECT_TRUE(full.SetLeaf(64, Data(3)).Is(Kind::kFull));  // the page before has to go
  TableRewriter full_at_the_end(&pages_, &pages_, root);
  EXPECT_TRUE(full_at_the_end.SetLeaf(0, Data(3)).ok());
  EXPECT_TRUE(full_at_the_end.Finish(&made).Is(Kind::kFull));
  pages_.full = false;
  pages_.Lose(root.ref);
  TableRewriter missing(&pages_, &pages_, root);
  EXPECT_TRUE(missing.SetLeaf(0, Data(3)).Is(Kind::kMissing));
}

}  // namespace
}  // namespace satchel::sim
