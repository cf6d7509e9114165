// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What a store has promised: everything that a call acknowledged, from when on, and until when. A
// place in time is a position in a SimDisk's journal.
#ifndef SATCHEL_TESTS_NATIVE_PROMISES_H_
#define SATCHEL_TESTS_NATIVE_PROMISES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/format/table.h"
#include "chunkstore/core/media/sealed_env.h"

namespace satchel::sim {

constexpr size_t kNever = SIZE_MAX;

struct Interval {
  size_t from = kNever;
  size_t until = kNever;  // when somebody began to take it back

  bool Holds(size_t position) const { return from <= position && position < until; }
};

// A named volume. Its name is a file; whoever sees that file must find all of the content.
struct PromisedVolume {
  TableRoot root;
  std::shared_ptr<const std::string> content;
  Interval when;
};

struct PromisedChunk {
  ChunkRef ref;
  std::shared_ptr<const std::string> block;
  Interval when;
};

// A generation of a medium: from then on this one, or a later one, opens.
struct PromisedGeneration {
  uint64_t number;
  Interval when;
};

struct Promises {
  Interval store;                                 // the store is there
  std::map<std::string, PromisedVolume> volumes;  // by name
  std::vector<PromisedChunk> chunks;
  Interval media;                       // the medium is there
  std::vector<SealKey> media_keys;      // what it is read with, the newest first; none: in clear
  std::vector<PromisedChunk> on_media;  // can be had from the medium alone
  std::vector<PromisedGeneration> generations;
  Interval relieved;  // the index may still have what was removed to make room

  // A prune begins: chunks that were only put are in no volume, and nobody has to have them now.
  void PutIsGarbage(size_t position);

  // What holds at `position`, as promised from the beginning; the rest as never promised.
  Promises At(size_t position) const;

  // Of what holds at `position`.
  uint64_t Digest(size_t position) const;
};

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_PROMISES_H_
