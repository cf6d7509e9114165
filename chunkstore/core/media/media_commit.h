// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The commit file: what one generation of a medium consists of. Described in docs/formats/media.md.
//
//   commit := header (64)  pack (16)*  file*  checksum u64
//   header := magic "SATGEN\0\0" (8)  version u32  cipher u32  uuid (16)  generation u64
//             created u64  packs u32  files u32  reserved, zero (8)
//   pack   := number u32  chunks u32  size u64
//   file   := size u32  kind u16  length of path u16  SHA-256 (32)  path
//
// The checksum is XXH3-64 of everything before it, so a commit that was being written when the
// medium was pulled out is known as such. It is written last and never changed: a generation is
// there when its commit file is whole.
#ifndef SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_COMMIT_H_
#define SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_COMMIT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "chunkstore/core/format/pack_format.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

constexpr char kMediaCommitMagic[8] = {'S', 'A', 'T', 'G', 'E', 'N', '\0', '\0'};
constexpr uint32_t kMediaCommitVersion = 1;
constexpr size_t kMediaCommitHeaderSize = 64;
constexpr size_t kMediaCommitPackSize = 16;
constexpr size_t kMediaCommitFileSize = 40;  // and the path

// Bytes of a commit file that is read, and of a path in it.
constexpr size_t kMediaCommitLimit = size_t{16} << 20;
constexpr size_t kMediaPathLimit = 200;

// Where the files of a generation are, below satchel/.
constexpr char kMediaFilesFolder[] = "checkpoints/";

// A file that a generation needs beside its packs: a manifest, a signature.
struct MediaFile {
  std::string path;                         // below satchel/
  uint32_t size;                            // bytes
  std::array<uint8_t, kDigestSize> digest;  // SHA-256
};

struct MediaPack {
  uint32_t number;
  uint32_t chunks;
  uint64_t size;  // bytes
};

struct MediaCommit {
  std::array<uint8_t, 16> uuid{};  // of the medium
  uint64_t generation = 0;         // from 1
  uint64_t created = 0;            // nanoseconds since 1970, UTC
  std::vector<MediaPack> packs;
  std::vector<MediaFile> files;
};

std::string EncodeMediaCommit(const MediaCommit& commit);

// kDamaged unless every length and the checksum agree and every path is one that a medium may
// have; kUnsupported for another version or a cipher.
Status DecodeMediaCommit(const std::string& data, MediaCommit* commit);

// A name of [a-z0-9-] in the folder for files, with at most one suffix of the same.
bool IsMediaPath(const std::string& path);

// "000012.commit" is generation 12.
std::string MediaCommitName(uint64_t generation);
bool ParseMediaCommitName(const std::string& name, uint64_t* generation);

// 8-4-4-4-12 hex digits, as media.json has it. false for anything else.
bool ParseUuid(const std::string& text, std::array<uint8_t, 16>* uuid);
std::string FormatUuid(const std::array<uint8_t, 16>& uuid);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_COMMIT_H_
