// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The index file beside each closed pack of a medium. Described in docs/formats/media.md.
//
//   file   := header (32)  entry*  checksum u64      sorted by reference
//   header := magic "SATIDX\0\0" (8)  version u32  count u32  pack size u64  reserved, zero (8)
//   entry  := chunk reference (52)  offset u32  length u16  reserved, zero (2)
//
// The checksum is XXH3-64 of everything before it: against accidents. Nobody trusts a medium; what
// an entry leads to is checked by its own hashes.
#ifndef SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_INDEX_H_
#define SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "chunkstore/core/format/chunk_ref.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

constexpr char kMediaIndexMagic[8] = {'S', 'A', 'T', 'I', 'D', 'X', '\0', '\0'};
constexpr uint32_t kMediaIndexVersion = 1;
constexpr size_t kMediaIndexHeaderSize = 32;
constexpr size_t kMediaIndexEntrySize = 60;

// Bytes of a file that is read: more than the smallest records can make of a pack of 64 MiB.
constexpr size_t kMediaIndexLimit = size_t{64} << 20;

struct MediaIndexEntry {
  ChunkRef ref;
  uint32_t offset;
  uint16_t length;
};

// Sorts `entries`.
std::string EncodeMediaIndex(std::vector<MediaIndexEntry>* entries, uint64_t pack_size);

// kDamaged unless size, header and checksum agree. Order and places are not checked. *pack_size is
// what the header says.
Status DecodeMediaIndex(const std::string& data, std::vector<MediaIndexEntry>* entries,
                        uint64_t* pack_size);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_INDEX_H_
