// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A pack, read from front to back.
#include "chunkstore/core/packs/pack_scan.h"

#include "chunkstore/core/format/frame.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::Status;
using satchel::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  satchel::fuzz::MemoryFile file(data, size);
  (void)satchel::CheckPackHeader(&file);
  uint64_t end = satchel::kPackHeaderSize;  // of what was visited
  satchel::ScanVisitor visitor;
  visitor.on_record = [&](uint64_t offset, const satchel::RecordView& record, bool) {
    Require(offset == end && offset + record.size() <= size);
    end = offset + record.size();
    uint8_t block[satchel::kBlockSize];
    (void)satchel::VerifyRecord(record, block);
    return Status();
  };
  satchel::FrameDecoder decoder;
  std::vector<satchel::ChunkRef> names;
  visitor.on_frame = [&](uint64_t offset, const satchel::FrameView& frame) {
    Require(offset == end && offset + frame.size() <= size);
    end = offset + frame.size();
    (void)satchel::NameFrame(frame, &decoder, &names);
    return Status();
  };
  visitor.on_garbage = [&](uint64_t begin, uint64_t stop, const std::string&) {
    Require(begin == end && begin < stop && stop <= size);
    end = stop;
    return Status();
  };
  Require(satchel::ScanPack(&file, satchel::kPackHeaderSize, size, visitor).ok());
  Require(size <= satchel::kPackHeaderSize || end == size);
  return 0;
}
