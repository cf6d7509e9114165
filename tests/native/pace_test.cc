// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A disk that is slower than compressing gets less to write.
#include "chunkstore/core/pace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "chunkstore/core/store.h"
#include "tests/native/forwarding.h"
#include "tests/native/scratch.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

using std::chrono::nanoseconds;

constexpr uint64_t kMega = 1 << 20;

// A file whose writes take `ns_per_byte` longer.
class SlowFile final : public ForwardingFile {
 public:
  SlowFile(std::unique_ptr<File> file, uint64_t ns_per_byte)
      : ForwardingFile(std::move(file)), ns_per_byte_(ns_per_byte) {}

  Status WriteAt(uint64_t offset, const void* data, size_t n) override {
    std::this_thread::sleep_for(nanoseconds(n * ns_per_byte_));
    return ForwardingFile::WriteAt(offset, data, n);
  }

 private:
  const uint64_t ns_per_byte_;
};

// With room for all that is stored.
class SlowDisk final : public ForwardingEnv {
 public:
  explicit SlowDisk(uint64_t ns_per_byte) : ns_per_byte_(ns_per_byte) {}

  Status Open(const std::string& path, OpenMode mode, std::unique_ptr<File>* file) override {
    std::unique_ptr<File> quick;
    SATCHEL_RETURN_IF_ERROR(ForwardingEnv::Open(path, mode, &quick));
    *file = std::make_unique<SlowFile>(std::move(quick), ns_per_byte_);
    return {};
  }
  Status FreeBytes(const std::string&, uint64_t* bytes) override {
    *bytes = uint64_t{1} << 40;
    return {};
  }

 private:
  const uint64_t ns_per_byte_;
};

// Bytes of records that an import of 64 MB, of which a third does not compress, wrote.
uint64_t Imported(Env* env) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/store";
  EXPECT_TRUE(Store::Create(env, path).ok());
  ChunkOptions options;
  options.level = 0;
  std::unique_ptr<Store> store;
  EXPECT_TRUE(Store::Open(env, path, options, &store).ok());
  const std::string content = MakeContent(1, 64 * kMega / kBlockSize);
  const auto source =
      MemorySource(reinterpret_cast<const uint8_t*>(content.data()), content.size());
  TableRoot root;
  EXPECT_TRUE(store->Import(source.get(), nullptr, nullptr, &root).ok());
  std::string back(content.size(), '\0');
  EXPECT_TRUE(store->Read(root, 0, back.size(), reinterpret_cast<uint8_t*>(back.data())).ok());
  EXPECT_TRUE(back == content);
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path + "/packs")) {
    bytes += entry.file_size();
  }
  return bytes;
}

TEST(Pace, AnImportOntoASlowDiskCompresses) {
  SlowDisk slow(/*ns_per_byte=*/100);        // 20 to 30 times as long as compressing takes
  const uint64_t raw = 64 * kMega / 10 * 8;  // the rest are zeros
  const uint64_t bytes = Imported(&slow);
  EXPECT_LT(bytes, raw * 8 / 10);
  EXPECT_GT(bytes, raw / 4);  // the first of them were written as they are
}

TEST(Pace, TheDiskIsNotTheSlowerBeforeMuchWasWritten) {
  Pace pace;
  pace.Wrote(kMega, std::chrono::seconds(10));
  EXPECT_FALSE(pace.disk_is_slower());
}

nanoseconds TenMegaAt(uint64_t mb_per_second) {
  return nanoseconds(10'000'000'000 / mb_per_second);
}

TEST(Pace, WhatIsSlowerIsSeenFromTheLastWrites) {
  Pace pace;
  for (int i = 0; i < 8; ++i) pace.Wrote(10'000'000, TenMegaAt(150));
  EXPECT_TRUE(pace.disk_is_slower());
  for (int i = 0; i < 8; ++i) pace.Wrote(10'000'000, TenMegaAt(1000));
  EXPECT_FALSE(pace.disk_is_slower());
  for (int i = 0; i < 8; ++i) pace.Wrote(10'000'000, TenMegaAt(150));
  EXPECT_TRUE(pace.disk_is_slower());
}

TEST(Pace, WhatDoesNotCompressOrTakesLongIsWrittenAsItIs) {
  Pace useless;
  for (int i = 0; i < 8; ++i) useless.Compressed(10'000'000, 9'900'000, TenMegaAt(400));
  for (int i = 0; i < 8; ++i) useless.Wrote(10'000'000, TenMegaAt(150));
  EXPECT_FALSE(useless.disk_is_slower());
  Pace busy;  // other programs have the processor
  for (int i = 0; i < 8; ++i) busy.Compressed(10'000'000, 4'000'000, TenMegaAt(50));
  for (int i = 0; i < 8; ++i) busy.Wrote(10'000'000, TenMegaAt(150));
  EXPECT_FALSE(busy.disk_is_slower());
}

}  // namespace
}  // namespace satchel::sim
