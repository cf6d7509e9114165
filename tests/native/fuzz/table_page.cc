// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Table pages of a stranger, walked as a surrogate does: the bytes are pages one after the other,
// and a reference names one of them by its first byte.
#include <cstring>

#include "chunkstore/core/format/chunk_status.h"
#include "chunkstore/core/format/table.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::ChunkRef;
using satchel::Status;
using satchel::fuzz::Require;

namespace {

class Pages final : public satchel::PageSource {
 public:
  Pages(const uint8_t* data, size_t size) : data_(data), count_(size / satchel::kBlockSize) {}

  Status GetPage(const ChunkRef& ref, unsigned level,
                 std::shared_ptr<const satchel::Page>* page) override {
    const size_t number = ref.bytes[0];
    if (number >= count_ || ++asked_ > 1000) return MissingChunk(ref);
    auto decoded = std::make_shared<satchel::Page>();
    const uint8_t* block = data_ + number * satchel::kBlockSize;
    SATCHEL_RETURN_IF_ERROR(satchel::DecodePage(ref, block, level, decoded.get()));
    *page = decoded;
    return {};
  }

 private:
  const uint8_t* const data_;
  const size_t count_;
  size_t asked_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 32) return 0;
  satchel::TableRoot root;
  uint64_t first = 0;
  uint64_t count = 0;
  std::memcpy(&root.size, data, 8);
  std::memcpy(&first, data + 8, 8);
  std::memcpy(&count, data + 16, 8);
  root.ref.bytes[1] = 1;  // page 0
  Pages pages(data + 24, size - 24);
  uint64_t next = first;
  satchel::TableVisitor visitor;
  visitor.on_blocks = [&](uint64_t from, const ChunkRef* refs, uint32_t n) {
    Require(from >= next && n <= satchel::kPageFanout && from + n <= root.blocks());
    Require(from + n - first <= count);
    for (uint32_t i = 0; i < n; ++i) (void)refs[i].IsZero();
    next = from + n;
    return Status();
  };
  visitor.on_zero = [&](uint64_t from, uint64_t n) {
    Require(from >= next && from + n <= root.blocks());
    next = from + n;
    return Status();
  };
  visitor.on_missing = [](const ChunkRef&) { return Status(); };
  (void)satchel::WalkTable(&pages, root, first, count, visitor);
  return 0;
}
