// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The real system behind the engine's seam: what a file has after writes that go past its memory.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "chunkstore/core/env.h"
#include "tests/native/scratch.h"

namespace satchel {
namespace {

constexpr size_t kPiece = 7 * 4160;  // as records: no multiple of a page

std::string Content(size_t n) {
  std::string content(n, '\0');
  uint32_t state = 1;
  for (char& byte : content) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return content;
}

// Every other piece, the last first: they share pages with the pieces of the other writer.
Status WriteEveryOther(File* file, const std::string& content, size_t first) {
  for (size_t i = content.size() / kPiece; i-- > 0;) {
    if (i % 2 != first) continue;
    SATCHEL_RETURN_IF_ERROR(file->WriteUncached(i * kPiece, &content[i * kPiece], kPiece));
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
  const sim::Scratch scratch;
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
  const sim::Scratch scratch;
  std::unique_ptr<File> file;
  ASSERT_TRUE(PosixEnv()->Open(scratch.path() + "/file", OpenMode::kCreate, &file).ok());
  std::string content(size_t{1} << 20, 'x');
  ASSERT_TRUE(file->WriteAt(0, content.data(), content.size()).ok());
  ExpectContent(file.get(), content);
  const std::string piece = Content(100'000);
  content.replace(1234, piece.size(), piece);
  ASSERT_TRUE(file->WriteUncached(1234, piece.data(), piece.size()).ok());
  ExpectContent(file.get(), content);
}

}  // namespace
}  // namespace satchel
