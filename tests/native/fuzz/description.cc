// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The file that says what a folder is, and the names of packs.
#include "chunkstore/core/format/description.h"

#include "chunkstore/core/packs/pack_reader.h"
#include "tests/native/fuzz/memory_file.h"
#include "tests/native/sim_disk.h"

using satchel::fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  satchel::sim::SimDisk disk;
  std::unique_ptr<satchel::File> file;
  Require(disk.Open("/d", satchel::OpenMode::kCreate, &file).ok());
  Require(file->WriteAt(0, data, size).ok());
  for (const char* format : {"satchel-store", "satchel-media"}) {
    const satchel::Status status =
        satchel::CheckDescription(&disk, "/d", format, 1, "what is fuzzed");
    Require(!status.ok() || size < 4096);
  }
  uint32_t pack = 0;
  if (satchel::ParsePackName(text, &pack)) Require(satchel::PackName(pack) == text);
  return 0;
}
