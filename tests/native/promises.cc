// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/native/promises.h"

#include <algorithm>

#include "chunkstore/core/format/hash.h"
#include "tests/native/sim_disk.h"

namespace satchel::sim {

void Promises::PutIsGarbage(size_t position) {
  for (PromisedChunk& chunk : chunks) chunk.when.until = std::min(chunk.when.until, position);
}

Promises Promises::At(size_t position) const {
  const auto settle = [&](Interval* when) {
    *when = Interval{when->Holds(position) ? 0 : kNever, kNever};
  };
  Promises settled = *this;
  settle(&settled.store);
  settle(&settled.media);
  settle(&settled.relieved);
  for (auto& [name, volume] : settled.volumes) settle(&volume.when);
  for (PromisedChunk& chunk : settled.chunks) settle(&chunk.when);
  for (PromisedChunk& chunk : settled.on_media) settle(&chunk.when);
  for (PromisedGeneration& generation : settled.generations) settle(&generation.when);
  return settled;
}

uint64_t Promises::Digest(size_t position) const {
  uint64_t digest = 0;
  const auto add = [&](const Interval& when, const void* data, size_t n) {
    const uint64_t held = when.Holds(position) ? Checksum64(data, n) : 0;
    digest = Random(digest ^ held).Next();
  };
  add(store, "store", 5);
  add(media, "media", 5);
  add(relieved, "relieved", 8);
  for (const auto& [name, volume] : volumes) add(volume.when, name.data(), name.size());
  for (const auto& chunk : chunks) add(chunk.when, chunk.ref.bytes, sizeof chunk.ref.bytes);
  for (const auto& chunk : on_media) add(chunk.when, chunk.ref.bytes, sizeof chunk.ref.bytes);
  for (const auto& generation : generations) {
    add(generation.when, &generation.number, sizeof generation.number);
  }
  return digest;
}

}  // namespace satchel::sim
