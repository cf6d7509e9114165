// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What a generation of somebody else's medium says that it consists of, and the names of commits.
#include "chunkstore/core/media/media_commit.h"

#include <cstring>

#include "chunkstore/core/format/hash.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::fuzz::Require;

static void Decode(const std::string& data) {
  satchel::MediaCommit commit;
  if (!satchel::DecodeMediaCommit(data, &commit).ok()) return;
  Require(commit.packs.size() * satchel::kMediaCommitPackSize < data.size());
  Require(commit.files.size() * satchel::kMediaCommitFileSize < data.size());
  for (const satchel::MediaFile& file : commit.files) Require(satchel::IsMediaPath(file.path));
  Require(satchel::EncodeMediaCommit(commit) == data);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  Decode(text);
  uint64_t generation = 0;
  if (satchel::ParseMediaCommitName(text, &generation)) Require(generation > 0);
  if (satchel::IsMediaPath(text)) {
    Require(text.find("..") == std::string::npos && text[0] != '/' && text.back() != '/');
  }
  // Bytes with a right checksum, so that the fuzzer gets behind it.
  const uint64_t checksum = satchel::Checksum64(text.data(), text.size());
  text.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  Decode(text);
  return 0;
}
