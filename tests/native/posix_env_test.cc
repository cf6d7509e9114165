// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The real system behind the engine's seam: what a file has after writes that go past its memory,
// and what reads that do so see of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "chunkstore/core/os/env.h"
#include "tests/native/scratch.h"

namespace satchel {
namespace {

constexpr char kDisk[] = "/var/tmp";  // what is in memory alone does not go past it
constexpr size_t kPiece = 7 * 4160;   // as records: no multiple of a page

std::string Content(size_t n) {
  std::string content(n, '\0');
  uint32_t state = 1;
  for (char& byte : content) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return content;
}

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};

std::unique_ptr<char, Free> Aligned(size_t n) {
  return std::unique_ptr<char, Free>(
      static_cast<char*>(std::aligned_alloc(File::kUncachedAlign, n)));
}

// From memory that lies in its pages as the bytes do in those of the file.
Status WriteUncached(File* file, uint64_t offset, const std::string& content) {
  constexpr size_t kPage = File::kUncachedAlign;
  const auto buffer = Aligned((content.size() / kPage + 2) * kPage);
  char* const from = buffer.get() + offset % kPage;
  std::memcpy(from, content.data(), content.size());
  return file->WriteUncached(offset, from, content.size());
}

// Every other piece, the last first: they share pages with the pieces of the other writer.
Status WriteEveryOther(File* file, const std::string& content, size_t first) {
  for (size_t i = content.size() / kPiece; i-- > 0;) {
    if (i % 2 != first) continue;
    SATCHEL_RETURN_IF_ERROR(WriteUncached(file, i * kPiece, content.substr(i * kPiece, kPiece)));
  }
  return {};
}

void ExpectContent(File* file, const std::string& content) {
  uint64_t size = 0;
  ASSERT_TRUE(file->Size(&size).ok());
  ASSERT_EQ(size, content.size());
  std::string read(content.size(), '\0');
  size_t got = 0;
  ASSERT_TRUE(file->ReadAt(0, read.size(), read.data(), &got).ok());
  EXPECT_TRUE(got == content.size() && read == content);
}

TEST(PosixEnv, UncachedWritesOfTwoThreadsThatSharePagesAreAllThere) {
  const sim::Scratch scratch(kDisk);
  const std::string content = Content(200 * kPiece);
  std::unique_ptr<File> file;
  ASSERT_TRUE(PosixEnv()->Open(scratch.path() + "/file", OpenMode::kCreate, &file).ok());
  Status odd;
  std::thread other([&] { odd = WriteEveryOther(file.get(), content, 1); });
  const Status even = WriteEveryOther(file.get(), content, 0);
  other.join();
  ASSERT_TRUE(even.ok() && odd.ok());
  ExpectContent(file.get(), content);
  ASSERT_TRUE(file->Sync().ok());
  file->DropCached(0, content.size());
  ExpectContent(file.get(), content);
}

TEST(PosixEnv, AnUncachedWriteReplacesWhatIsInTheSystemsMemory) {
  const sim::Scratch scratch(kDisk);
  std::unique_ptr<File> file;
  ASSERT_TRUE(PosixEnv()->Open(scratch.path() + "/file", OpenMode::kCreate, &file).ok());
  std::string content(size_t{1} << 20, 'x');
  ASSERT_TRUE(file->WriteAt(0, content.data(), content.size()).ok());
  ExpectContent(file.get(), content);
  const std::string piece = Content(100'000);
  content.replace(1234, piece.size(), piece);
  ASSERT_TRUE(WriteUncached(file.get(), 1234, piece).ok());
  ExpectContent(file.get(), content);
}

// More pieces than the kernel takes at once, whole pages or not, with holes between them.
void WriteBehind(File* file, const char* content, size_t size, size_t each) {
  const std::unique_ptr<AsyncWriter> writer = file->MakeAsyncWriter();
  for (size_t offset = 0; offset < size; offset += 2 * each) {
    const size_t n = std::min(each, size - offset);
    ASSERT_TRUE(writer->Write(offset, content + offset, n).ok());
  }
  for (size_t offset = each; offset < size; offset += 2 * each) {
    const size_t n = std::min(each, size - offset);
    ASSERT_TRUE(writer->Write(offset, content + offset, n).ok());
  }
  ASSERT_TRUE(writer->Wait().ok());
  ASSERT_TRUE(writer->Wait().ok());
}

TEST(PosixEnv, WritesThatGoOnByThemselvesAreAllThereAfterTheWait) {
  constexpr size_t kSize = size_t{3} << 20;
  const std::string content = Content(kSize);
  const auto buffer = Aligned(kSize);
  std::memcpy(buffer.get(), content.data(), kSize);
  for (const size_t each : {size_t{4096}, size_t{65536}, size_t{50'000}, size_t{1} << 20}) {
    const sim::Scratch scratch(kDisk);
    std::unique_ptr<File> file;
    ASSERT_TRUE(PosixEnv()->Open(scratch.path() + "/file", OpenMode::kCreate, &file).ok());
    ASSERT_TRUE(file->Truncate(kSize).ok());
    WriteBehind(file.get(), buffer.get(), kSize, each);
    ExpectContent(file.get(), content);
    ASSERT_TRUE(file->Sync().ok());
    file->DropCached(0, kSize);
    ExpectContent(file.get(), content);
  }
}

// A limit in the middle of a write, and another write behind it.
TEST(PosixEnv, AWriteThatGoesOnByItselfAndFailsIsToldOf) {
  const sim::Scratch scratch(kDisk);
  std::unique_ptr<File> file;
  ASSERT_TRUE(PosixEnv()->Open(scratch.path() + "/file", OpenMode::kCreate, &file).ok());
  const auto buffer = Aligned(size_t{1} << 20);
  std::memset(buffer.get(), 'x', size_t{1} << 20);
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit limit = {size_t{300} << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  for (const uint64_t offset : {uint64_t{0}, uint64_t{400} << 10}) {
    const std::unique_ptr<AsyncWriter> writer = file->MakeAsyncWriter();
    const Status status = writer->Write(offset, buffer.get(), size_t{512} << 10);
    const Status waited = writer->Wait();
    EXPECT_NE(status.ok(), waited.ok()) << "told once, of " << offset;
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
}

TEST(PosixEnv, WhoMayNotWriteIsToldByAWriterToo) {
  const sim::Scratch scratch(kDisk);
  std::unique_ptr<File> file;
  const std::string path = scratch.path() + "/file";
  ASSERT_TRUE(PosixEnv()->Open(path, OpenMode::kCreate, &file).ok());
  ASSERT_TRUE(PosixEnv()->Open(path, OpenMode::kRead, &file).ok());
  const auto buffer = Aligned(4096);
  const std::unique_ptr<AsyncWriter> writer = file->MakeAsyncWriter();
  EXPECT_FALSE(writer->Write(0, buffer.get(), 4096).ok());
  EXPECT_TRUE(writer->Wait().ok());
}

// Pages of the file that are in the system's memory.
size_t PagesInMemory(const std::string& path, size_t size) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const range = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  EXPECT_EQ(mincore(range, size, pages.data()), 0);
  munmap(range, size);
  close(fd);
  const auto there = [](unsigned char page) { return (page & 1) != 0; };
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), there));
}

// Of a piece of any size and place, as far as the file goes.
void ExpectUncachedReads(File* file, const std::string& content) {
  constexpr size_t kRoom = size_t{256} << 10;
  const auto buffer = Aligned(kRoom);
  for (const size_t n : {size_t{4096}, size_t{5000}, size_t{65536}, kRoom}) {
    for (size_t offset = 0; offset < content.size() + 4096; offset += 12288) {
      for (const size_t skew : {size_t{0}, size_t{100}}) {
        size_t got = 0;
        ASSERT_TRUE(file->ReadUncached(offset + skew, n, buffer.get(), &got).ok());
        const size_t from = std::min(content.size(), offset + skew);
        ASSERT_EQ(got, std::min(n, content.size() - from));
        ASSERT_EQ(content.compare(from, got, buffer.get(), got), 0) << n << " at " << offset;
      }
    }
  }
}

TEST(PosixEnv, AReadOfManyPiecesEndsWhereTheFileDoes) {
  const sim::Scratch scratch(kDisk);
  const std::string content = Content(3 * kPiece);
  std::unique_ptr<File> file;
  ASSERT_TRUE(PosixEnv()->Open(scratch.path() + "/file", OpenMode::kCreate, &file).ok());
  ASSERT_TRUE(file->WriteAt(0, content.data(), content.size()).ok());
  for (const size_t count : {size_t{1}, size_t{7}, size_t{600}, size_t{3000}}) {
    constexpr size_t kOffset = 33;
    const size_t each = 64;
    std::string read(count * each, '?');
    std::vector<File::Piece> pieces;  // the last of them first
    for (size_t i = count; i-- > 0;) pieces.push_back({&read[i * each], each});
    size_t got = 0;
    ASSERT_TRUE(file->ReadPieces(kOffset, pieces.data(), count, &got).ok());
    ASSERT_EQ(got, std::min(read.size(), content.size() - kOffset)) << count;
    for (size_t i = 0; i < got; ++i) {
      ASSERT_EQ(read[(count - 1 - i / each) * each + i % each], content[kOffset + i]);
    }
  }
}

TEST(PosixEnv, AnUncachedReadSeesWhatWasWrittenInAnyWay) {
  const sim::Scratch scratch(kDisk);
  const std::string content = Content(20 * kPiece + 77);
  std::unique_ptr<File> file;
  ASSERT_TRUE(PosixEnv()->Open(scratch.path() + "/file", OpenMode::kCreate, &file).ok());
  const size_t half = content.size() / 2;
  ASSERT_TRUE(WriteUncached(file.get(), 0, content.substr(0, half)).ok());
  ASSERT_TRUE(file->WriteAt(half, &content[half], content.size() - half).ok());
  ExpectUncachedReads(file.get(), content);
  ASSERT_TRUE(file->Sync().ok());
  file->DropCached(0, content.size());
  ExpectUncachedReads(file.get(), content);
}

TEST(PosixEnv, AnUncachedReadBringsNothingIntoTheSystemsMemory) {
  const sim::Scratch scratch(kDisk);
  const std::string path = scratch.path() + "/file";
  const std::string content = Content(size_t{4} << 20);
  std::unique_ptr<File> file;
  ASSERT_TRUE(PosixEnv()->Open(path, OpenMode::kCreate, &file).ok());
  ASSERT_TRUE(file->WriteAt(0, content.data(), content.size()).ok());
  ASSERT_TRUE(file->Sync().ok());
  file->DropCached(0, content.size());
  const size_t before = PagesInMemory(path, content.size());
  if (before == content.size() / 4096) GTEST_SKIP() << kDisk << " keeps its files in memory";
  const auto buffer = Aligned(content.size());
  size_t got = 0;
  ASSERT_TRUE(file->ReadUncached(0, content.size(), buffer.get(), &got).ok());
  EXPECT_EQ(content.compare(0, got, buffer.get(), got), 0);
  EXPECT_LE(PagesInMemory(path, content.size()), before);
  ASSERT_TRUE(file->ReadAt(0, content.size(), buffer.get(), &got).ok());
  EXPECT_GT(PagesInMemory(path, content.size()), before);
}

}  // namespace
}  // namespace satchel
