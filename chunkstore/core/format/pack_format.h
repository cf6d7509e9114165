// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The pack: an append-only file of chunk records, self-describing record by record, so that every
// index can be rebuilt from packs alone. The same record is what crosses a network: a batch of
// chunks on the wire is records one after the other. Described in docs/formats/pack.md.
//
//   pack    := header (record | frame)*
//   header  := magic "SATPACK\0" (8)  version u32 (4)  reserved, zero (4)
//   record  := record header (64)  payload (length)
//   frame   := frame header (16)  payload (length)
//
// A record is one chunk with its name. A frame is several chunks compressed together, without their
// names (frame.h); only stores have frames.
//
// All integers are little-endian. A pack never grows past kPackLimit.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_PACK_FORMAT_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_PACK_FORMAT_H_

#include <cstdint>

namespace satchel {

constexpr uint32_t kBlockSize = 4096;
constexpr uint32_t kChunkIdSize = 20;  // SHA-1, the name
constexpr uint32_t kDigestSize = 32;   // SHA-256, the truth
constexpr uint32_t kChunkRefSize = kChunkIdSize + kDigestSize;

constexpr char kPackMagic[8] = {'S', 'A', 'T', 'P', 'A', 'C', 'K', '\0'};
constexpr uint32_t kPackVersion = 2;
constexpr uint32_t kPackHeaderSize = 16;
constexpr uint64_t kPackLimit = uint64_t{256} << 20;  // bytes; far under FAT32's 4 GiB

constexpr uint32_t kRecordMagic = 0x52544153;  // "SATR"

enum class Codec : uint8_t {
  kRaw = 0,   // payload is the 4096 bytes
  kZstd = 1,  // payload is one zstd frame of 4096 bytes, shorter than 4096
};

#pragma pack(push, 1)
struct RecordHeader {
  uint32_t magic;               //  0
  Codec codec;                  //  4
  uint8_t reserved;             //  5  zero
  uint16_t length;              //  6  bytes of payload, 1 to 4096
  uint8_t id[kChunkIdSize];     //  8  SHA-1 of the 4096 bytes
  uint8_t digest[kDigestSize];  // 28  SHA-256 of the 4096 bytes
  uint32_t checksum;            // 60  low 32 bits of XXH3-64 over bytes 0 to 59 and the payload
};
#pragma pack(pop)
static_assert(sizeof(RecordHeader) == 64, "the record header is 64 bytes on disk");

constexpr uint32_t kRecordHeaderSize = sizeof(RecordHeader);

constexpr uint32_t kFrameMagic = 0x46544153;  // "SATF"

// Chunks in a frame, and bytes of its payload: what does not compress fits as well.
constexpr uint32_t kMaxFrameChunks = 15;
constexpr uint32_t kMaxFramePayload = 62 * 1024;

enum class FrameCodec : uint8_t {
  kPages = 1,   // one zstd frame without its magic; for table pages
  kBlocks = 2,  // the same of blocks whose branches were made absolute (branches.h)
};

#pragma pack(push, 1)
struct FrameHeader {
  uint32_t magic;     //  0
  FrameCodec codec;   //  4
  uint8_t count;      //  5  chunks, 1 to kMaxFrameChunks
  uint16_t length;    //  6  bytes of payload, 1 to kMaxFramePayload
  uint64_t checksum;  //  8  XXH3-64 over bytes 0 to 7 and the payload
};
#pragma pack(pop)
static_assert(sizeof(FrameHeader) == 16, "the frame header is 16 bytes on disk");

constexpr uint32_t kFrameHeaderSize = sizeof(FrameHeader);
constexpr uint32_t kMaxFrameSize = kFrameHeaderSize + kMaxFramePayload;

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_PACK_FORMAT_H_
