// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads of many chunks whose places are known, in few large pieces.
//
// A disk streams many times what it gives in single blocks, and the chunks of one part of a volume
// lie near each other in the packs, though not in its order: what an older volume had stands in an
// older pack. So the chunks are taken in the order of their places; places near each other are read
// together with what is between them, and a frame is checked and decompressed once for all chunks
// that are wanted of it.
//
// Who reads a volume once, as an export does, has the packs read past the system's memory, as far
// as they are not there. What is in the system's memory is taken from there either way.
//
// Not done: no read is under way while its reader decompresses. Whoever wants that has more readers
// than processors (workers.h); that is as fast, and simpler than queues of reads.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACKS_BULK_READER_H_
#define SATCHEL_CHUNKSTORE_CORE_PACKS_BULK_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/format/location.h"
#include "chunkstore/core/packs/pack_reader.h"

namespace satchel {

// For one thread at a time. Memory: kMaxSpan and one frame.
class BulkReader {
 public:
  enum class CacheUse : uint8_t {
    kKeep,  // the packs are read again soon
    kOnce,  // what the system does not have in its memory need not come there
  };

  // `packs` outlives the reader.
  BulkReader(PackReader* packs, CacheUse cache_use);

  // Reads the chunks at at[0..n) to blocks one behind the other. One that cannot be had, or that
  // has no place (pack 0), becomes zero. What is read is whole; whose chunk it is nobody checks.
  void Read(const Location* at, size_t n, uint8_t* blocks);

 private:
  static constexpr size_t kMaxSpan = size_t{1} << 20;
  static constexpr size_t kMaxGap = size_t{64}
                                    << 10;  // what reading on costs less than asking again

  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };

  size_t ReadSpan(const Location* at, size_t k, uint8_t* blocks);
  void Decode(const Location& at, const uint8_t* data, size_t n, uint8_t* block);

  PackReader* const packs_;
  const CacheUse cache_use_;
  const std::unique_ptr<uint8_t, Free> span_;
  FrameDecoder decoder_;
  Location frame_{};             // the one that decoder_ has, of the span that is read
  std::vector<uint32_t> order_;  // of those that have a place
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACKS_BULK_READER_H_
