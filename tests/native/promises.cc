// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/native/promises.h"

namespace satchel::sim {

Promises Promises::At(size_t position) const {
  const auto settle = [&](Interval* when) {
    *when = Interval{when->Holds(position) ? 0 : kNever, kNever};
  };
  Promises settled = *this;
  settle(&settled.store);
  settle(&settled.media);
  for (auto& [name, volume] : settled.volumes) settle(&volume.when);
  for (PromisedChunk& chunk : settled.chunks) settle(&chunk.when);
  for (PromisedChunk& chunk : settled.on_media) settle(&chunk.when);
  for (PromisedGeneration& generation : settled.generations) settle(&generation.when);
  return settled;
}

}  // namespace satchel::sim
