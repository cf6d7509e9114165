// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#define ZSTD_STATIC_LINKING_ONLY  // frames without magic, and decompression block by block
#include "chunkstore/core/format/frame.h"

#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "chunkstore/core/format/branches.h"
#include "chunkstore/core/format/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace satchel {
namespace {

uint64_t FrameChecksum(const uint8_t* header, const uint8_t* payload, size_t length) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, header, offsetof(FrameHeader, checksum));
  XXH3_64bits_update(&state, payload, length);
  return XXH3_64bits_digest(&state);
}

Status Damaged(const char* why) { return Status::Make(Kind::kDamaged, "bad frame", why); }

}  // namespace

Status ParseFrame(const uint8_t* data, size_t n, FrameView* frame) {
  if (n < kFrameHeaderSize) return Damaged("the header is cut off");
  FrameHeader header;
  std::memcpy(&header, data, sizeof header);
  if (header.magic != kFrameMagic) return Damaged("wrong magic");
  if (header.codec != FrameCodec::kPages && header.codec != FrameCodec::kBlocks) {
    return Damaged("unknown codec");
  }
  if (header.count == 0 || header.count > kMaxFrameChunks) return Damaged("count out of range");
  if (header.length == 0 || header.length > kMaxFramePayload) return Damaged("length out of range");
  if (n - kFrameHeaderSize < header.length) return Damaged("the payload is cut off");
  const uint8_t* payload = data + kFrameHeaderSize;
  if (FrameChecksum(data, payload, header.length) != header.checksum) {
    return Damaged("the checksum does not agree");
  }
  *frame = FrameView{header.codec, header.count, header.length, payload};
  return {};
}

FrameEncoder::FrameEncoder(int level) : context_(ZSTD_createCCtx()) {
  const auto set = [this](ZSTD_cParameter parameter, int value) {
    [[maybe_unused]] const size_t result = ZSTD_CCtx_setParameter(context_, parameter, value);
    assert(!ZSTD_isError(result));
  };
  set(ZSTD_c_compressionLevel, level);
  set(ZSTD_c_format, ZSTD_f_zstd1_magicless);
  set(ZSTD_c_contentSizeFlag, 0);
}

FrameEncoder::~FrameEncoder() { ZSTD_freeCCtx(context_); }

Status FrameEncoder::Append(FrameCodec codec, uint8_t* blocks, unsigned count, std::string* out) {
  assert(count > 0 && count <= kMaxFrameChunks);
  if (codec == FrameCodec::kBlocks) {
    for (unsigned i = 0; i < count; ++i) MakeBranchesAbsolute(blocks + i * kBlockSize, i);
  }
  const size_t start = out->size();
  out->resize(start + kMaxFrameSize);
  auto* header = reinterpret_cast<uint8_t*>(out->data()) + start;
  uint8_t* payload = header + kFrameHeaderSize;
  ZSTD_CCtx_reset(context_, ZSTD_reset_session_only);
  ZSTD_CCtx_setPledgedSrcSize(context_, size_t{count} * kBlockSize);
  ZSTD_outBuffer to{payload, kMaxFramePayload, 0};
  for (unsigned i = 0; i < count; i += kFrameGroup) {
    const unsigned end = std::min(count, i + kFrameGroup);
    ZSTD_inBuffer from{blocks + size_t{i} * kBlockSize, size_t{end - i} * kBlockSize, 0};
    const auto mode = end < count ? ZSTD_e_flush : ZSTD_e_end;
    const size_t left = ZSTD_compressStream2(context_, &to, &from, mode);
    if (left == 0) continue;
    out->resize(start);
    return Status::Make(Kind::kIo, "cannot compress a frame",
                        ZSTD_isError(left) ? ZSTD_getErrorName(left) : "it does not fit");
  }
  FrameHeader fields{kFrameMagic, codec, static_cast<uint8_t>(count), static_cast<uint16_t>(to.pos),
                     0};
  fields.checksum = FrameChecksum(reinterpret_cast<const uint8_t*>(&fields), payload, to.pos);
  std::memcpy(header, &fields, sizeof fields);
  out->resize(start + kFrameHeaderSize + to.pos);
  return {};
}

FrameDecoder::FrameDecoder()
    : context_(ZSTD_createDCtx()), payload_(new uint8_t[kMaxFrameChunks * kBlockSize]) {
  ZSTD_DCtx_setParameter(context_, ZSTD_d_format, ZSTD_f_zstd1_magicless);
}

FrameDecoder::~FrameDecoder() { ZSTD_freeDCtx(context_); }

void FrameDecoder::Start(const FrameView& frame) {
  assert(frame.count > 0 && frame.count <= kMaxFrameChunks);
  frame_ = frame;
  read_ = done_ = 0;
  ZSTD_decompressBegin(context_);
}

Status FrameDecoder::Block(unsigned slot, uint8_t* block) {
  if (slot >= frame_.count) return Damaged("it has no such slot");
  const size_t end = size_t{slot + 1} * kBlockSize;
  if (done_ < end) SATCHEL_RETURN_IF_ERROR(Decompress(end));
  std::memcpy(block, payload_.get() + end - kBlockSize, kBlockSize);
  if (frame_.codec == FrameCodec::kBlocks) MakeBranchesRelative(block, slot);
  return {};
}

// Until at least that many bytes are there. One block of zstd after the other goes straight to its
// place, without the buffers of ZSTD_decompressStream.
Status FrameDecoder::Decompress(size_t size) {
  const size_t room = size_t{frame_.count} * kBlockSize;
  while (done_ < size) {
    const size_t need = ZSTD_nextSrcSizeToDecompress(context_);
    const bool there = need > 0 && need <= frame_.length - read_;
    const size_t n = there ? ZSTD_decompressContinue(context_, payload_.get() + done_, room - done_,
                                                     frame_.payload + read_, need)
                           : 0;
    if (!there || ZSTD_isError(n)) {
      frame_ = FrameView{};
      return Damaged("its payload does not decompress to its chunks");
    }
    read_ += need;
    done_ += n;
  }
  return {};
}

Status NameFrame(const FrameView& frame, FrameDecoder* decoder, std::vector<ChunkRef>* names) {
  decoder->Start(frame);
  std::vector<uint8_t> blocks(size_t{frame.count} * kBlockSize);
  for (unsigned i = 0; i < frame.count; ++i) {
    SATCHEL_RETURN_IF_ERROR(decoder->Block(i, &blocks[size_t{i} * kBlockSize]));
  }
  names->resize(frame.count);
  NameBlocks(blocks.data(), frame.count, names->data());
  return {};
}

}  // namespace satchel
