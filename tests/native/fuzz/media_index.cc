// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The index file beside a pack of somebody else's medium.
#include "chunkstore/core/media/media_index.h"

#include <cstring>

#include "chunkstore/core/format/hash.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::fuzz::Require;

// Bytes with a right checksum, so that the fuzzer gets behind it.
static void Decode(const std::string& data) {
  std::vector<satchel::MediaIndexEntry> entries;
  uint64_t of = 0;
  if (!satchel::DecodeMediaIndex(data, &entries, &of).ok()) return;
  Require(entries.size() * satchel::kMediaIndexEntrySize < data.size());
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Decode(text);
  const uint64_t checksum = satchel::Checksum64(text.data(), text.size());
  text.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  Decode(text);
  return 0;
}
