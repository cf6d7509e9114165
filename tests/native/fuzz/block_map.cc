// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A block map whose file somebody has harmed.
#include <sys/mman.h>
#include <unistd.h>

#include "chunkstore/core/volume/block_map_file.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("block-map", 0);
  Require(file >= 0 && ftruncate(file, 0) == 0);
  Require(pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  std::unique_ptr<satchel::BlockMap> map;
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (!satchel::BlockMap::OpenShared(path, &map).ok()) return 0;
  Require(satchel::BlockMapSize(map->blocks()) == size);
  const satchel::BlockMap::Counts counts = map->Count();
  uint64_t sum = 0;
  for (const uint64_t count : counts.by_state) sum += count;
  Require(sum == map->blocks());
  for (uint64_t i = 0; i < map->blocks(); ++i) {
    const satchel::BlockEntry entry = map->Load(i);
    Require(satchel::DecodeEntry(satchel::EncodeEntry(entry)).at == entry.at);
  }
  Require(map->Touched().size() == map->CountForesight().touched);
  return 0;
}
