// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors about one chunk. The reference of the chunk is the subject of the Status.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_CHUNK_STATUS_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_CHUNK_STATUS_H_

#include <string>
#include <utility>

#include "chunkstore/core/format/chunk_ref.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

inline std::string SubjectOf(const ChunkRef& ref) {
  return std::string(reinterpret_cast<const char*>(ref.bytes), kChunkRefSize);
}

// `why` says where the chunk was looked for.
inline Status MissingChunk(const ChunkRef& ref, std::string why = {}) {
  return Status::Make(Kind::kMissing, "chunk " + ref.IdHex() + " is not here", std::move(why),
                      SubjectOf(ref));
}

// `why` says what disagrees with the reference.
inline Status InvalidChunk(const ChunkRef& ref, std::string why) {
  return Status::Make(Kind::kInvalid, "chunk " + ref.IdHex() + " is not what its name says",
                      std::move(why), SubjectOf(ref));
}

// The chunk of an error from one of the two above.
inline ChunkRef ChunkOf(const Status& status) {
  ChunkRef ref{};
  status.subject().copy(reinterpret_cast<char*>(ref.bytes), kChunkRefSize);
  return ref;
}

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_CHUNK_STATUS_H_
