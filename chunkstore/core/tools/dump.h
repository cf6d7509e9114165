// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Any file of the engine in words: a pack, a batch of records, a frame, the index of a pack, a
// commit file, a block map, a table page. Told apart by their first bytes and read with the
// functions that the engine reads them with, so that what is shown is what the engine sees.
#ifndef SATCHEL_CHUNKSTORE_CORE_TOOLS_DUMP_H_
#define SATCHEL_CHUNKSTORE_CORE_TOOLS_DUMP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "chunkstore/core/os/env.h"

namespace satchel {

// Something in a file: `size` bytes from `offset` on.
struct DumpedPart {
  uint64_t offset;
  uint64_t size;
  const char* kind;  // "header", "record", "frame", "entry", "garbage" ...
  std::string text;
};

// Calls `show` for each part in order; an error from it ends the dump. kDamaged if the file is none
// of the engine's or has another version; damage inside of it is shown as "garbage".
Status DumpFile(Env* env, const std::string& path,
                const std::function<Status(const DumpedPart&)>& show);

// The entries of an index, in the order of the references, and where its packs end; sizes are of
// what they lead to. LevelDB writes when it opens: `path` is a copy that nobody else needs.
Status DumpIndexCopy(Env* env, const std::string& path,
                     const std::function<Status(const DumpedPart&)>& show);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_TOOLS_DUMP_H_
