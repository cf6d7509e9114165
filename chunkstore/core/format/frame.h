// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The frame: several chunks compressed together, the settled form of a store's content. Described
// in docs/formats/pack.md; the bytes are laid out in pack_format.h.
//
// Two things pull at its size. zstd finds more in 48 KiB than in 4, and a reader that wants one
// block has to decompress what lies before it. So the chunks of a frame are in groups, and the
// compressor ends a block of its own at the end of each group: whoever wants slot 1 of 6 stops
// early. What sizes were tried, and what they cost, is in docs/results.md.
//
// Programs are a large part of a disk, and calls a large part of programs; their relative targets
// are made absolute before compression, block by block (branches.h). Table pages are hashes from
// end to end. They stand in frames of their own, so that they do not part what belongs together,
// and in which two versions of a page meet: then the second costs little.
//
// A frame has no references: 52 bytes a chunk would be more than a hundredth of all content. The
// index says which chunk is in which slot, and it can be made anew by decompressing and hashing,
// which gives the true names and nothing else. So a slot cannot lie about what it is, and two
// things follow: whether a chunk is in a slot is a question to the index, not to the pack; and of a
// frame that is damaged only the tables know the names of what was in it.
//
// All functions are safe on any bytes. Encoder and decoder are for one thread at a time.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_FRAME_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/format/chunk_ref.h"
#include "chunkstore/core/format/location.h"
#include "chunkstore/core/format/pack_format.h"
#include "chunkstore/core/os/status.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace satchel {

// What a writer makes; a reader takes any count up to kMaxFrameChunks and any grouping.
constexpr unsigned kFrameChunks = 6;
constexpr unsigned kPageFrameChunks = 8;
constexpr unsigned kFrameGroup = 2;
constexpr int kFrameLevel = 16;

struct FrameView {
  FrameCodec codec;
  uint8_t count;           // chunks
  uint32_t length;         // bytes of payload
  const uint8_t* payload;  // into the bytes that were parsed

  uint32_t size() const { return kFrameHeaderSize + length; }

  // Where the chunk of a slot is, when the frame is at `offset` of `pack`.
  Location Slot(uint32_t pack, uint64_t offset, unsigned slot) const {
    return Location{pack, static_cast<uint32_t>(offset), FrameLength(length),
                    static_cast<uint8_t>(slot)};
  }
};

// Parses the frame at the front of `data`: all fields and the checksum agree, and all of it lies
// within `n` bytes. kDamaged otherwise. The content is not decoded.
Status ParseFrame(const uint8_t* data, size_t n, FrameView* frame);

class FrameEncoder {
 public:
  explicit FrameEncoder(int level = kFrameLevel);
  ~FrameEncoder();
  FrameEncoder(const FrameEncoder&) = delete;
  FrameEncoder& operator=(const FrameEncoder&) = delete;

  // Appends the frame of the `count` blocks (1 to kMaxFrameChunks) that lie one behind the other.
  // They may be changed on return.
  Status Append(FrameCodec codec, uint8_t* blocks, unsigned count, std::string* out);

 private:
  ZSTD_CCtx_s* const context_;
};

// Decompresses one frame after the other, each only as far as it is asked for.
class FrameDecoder {
 public:
  FrameDecoder();
  ~FrameDecoder();
  FrameDecoder(const FrameDecoder&) = delete;
  FrameDecoder& operator=(const FrameDecoder&) = delete;

  // Begins with a frame, whose bytes have to stay where they are while its blocks are asked for.
  void Start(const FrameView& frame);

  // Chunks in the frame; 0 before the first.
  unsigned count() const { return frame_.count; }

  // Copies the 4096 bytes of a slot. kDamaged if there is no such slot or the payload does not
  // decompress that far.
  Status Block(unsigned slot, uint8_t* block);

 private:
  Status Decompress(size_t size);

  ZSTD_DCtx_s* const context_;
  const std::unique_ptr<uint8_t[]> payload_;  // decompressed
  FrameView frame_{};
  size_t read_ = 0;  // bytes of payload
  size_t done_ = 0;  // bytes of payload_
};

// Names the chunks of a frame, by hashing them: names[i] is that of slot i, the zero reference for
// a zero block. kDamaged as in FrameDecoder.
Status NameFrame(const FrameView& frame, FrameDecoder* decoder, std::vector<ChunkRef>* names);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_FRAME_H_
