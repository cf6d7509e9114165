// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A batch of chunk records, as a peer sends it.
#include "chunkstore/core/format/record.h"

#include "chunkstore/core/format/hash.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uint8_t block[satchel::kBlockSize];
  while (size > 0) {
    satchel::RecordView record;
    const satchel::Status parsed = satchel::ParseRecord(data, size, &record);
    if (!parsed.ok()) {
      Require(!parsed.what().empty());
      return 0;
    }
    Require(record.size() <= size && record.size() <= satchel::kMaxRecordSize);
    Require(record.payload >= data && record.payload + record.length <= data + size);
    (void)satchel::DecodeRecord(record, block);
    if (satchel::VerifyRecord(record, block).ok()) {
      Require(satchel::HashBlock(block) == record.ref);
    }
    data += record.size();
    size -= record.size();
  }
  return 0;
}
