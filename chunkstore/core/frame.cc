// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#define ZSTD_STATIC_LINKING_ONLY  // frames without magic
#include "chunkstore/core/frame.h"

#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "chunkstore/core/hash.h"

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
  if (header.codec != FrameCodec::kZstd) return Damaged("unknown codec");
  if (header.count == 0 || header.count > kMaxFrameChunks) return Damaged("count out of range");
  if (header.length == 0 || header.length > kMaxFramePayload) return Damaged("length out of range");
  if (n - kFrameHeaderSize < header.length) return Damaged("the payload is cut off");
  const uint8_t* payload = data + kFrameHeaderSize;
  if (FrameChecksum(data, payload, header.length) != header.checksum) {
    return Damaged("the checksum does not agree");
  }
  *frame = FrameView{header.count, header.length, payload};
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

Status FrameEncoder::Append(const uint8_t* blocks, unsigned count, std::string* out) {
  assert(count > 0 && count <= kMaxFrameChunks);
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
  FrameHeader fields{kFrameMagic, FrameCodec::kZstd, static_cast<uint8_t>(count),
                     static_cast<uint16_t>(to.pos), 0};
  fields.checksum = FrameChecksum(reinterpret_cast<const uint8_t*>(&fields), payload, to.pos);
  std::memcpy(header, &fields, sizeof fields);
  out->resize(start + kFrameHeaderSize + to.pos);
  return {};
}

FrameDecoder::FrameDecoder()
    : context_(ZSTD_createDCtx()), blocks_(new uint8_t[kMaxFrameChunks * kBlockSize]) {
  ZSTD_DCtx_setParameter(context_, ZSTD_d_format, ZSTD_f_zstd1_magicless);
  // No window larger than a frame: what a header asks for is not allocated.
  ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 16);
}

FrameDecoder::~FrameDecoder() { ZSTD_freeDCtx(context_); }

void FrameDecoder::Start(const FrameView& frame) {
  assert(frame.count > 0 && frame.count <= kMaxFrameChunks);
  frame_ = frame;
  read_ = done_ = 0;
  ZSTD_DCtx_reset(context_, ZSTD_reset_session_only);
}

Status FrameDecoder::Block(unsigned slot, const uint8_t** block) {
  if (slot >= frame_.count) return Damaged("it has no such slot");
  const size_t end = size_t{slot + 1} * kBlockSize;
  if (done_ < end) SATCHEL_RETURN_IF_ERROR(Decompress(end));
  *block = blocks_.get() + end - kBlockSize;
  return {};
}

// Until that many bytes are there.
Status FrameDecoder::Decompress(size_t size) {
  ZSTD_inBuffer from{frame_.payload, frame_.length, read_};
  ZSTD_outBuffer to{blocks_.get(), size, done_};
  while (to.pos < size) {
    const size_t before = to.pos;
    const size_t left = ZSTD_decompressStream(context_, &to, &from);
    const bool stuck = to.pos == before && from.pos == from.size;
    if (ZSTD_isError(left) || stuck || (left == 0 && to.pos < size)) {
      frame_ = FrameView{};
      return Damaged("its payload does not decompress to its chunks");
    }
  }
  read_ = from.pos;
  done_ = to.pos;
  return {};
}

Status NameFrame(const FrameView& frame, FrameDecoder* decoder, std::vector<ChunkRef>* names) {
  decoder->Start(frame);
  const uint8_t* last = nullptr;
  SATCHEL_RETURN_IF_ERROR(decoder->Block(frame.count - 1, &last));
  names->resize(frame.count);
  NameBlocks(last - size_t{frame.count - 1u} * kBlockSize, frame.count, names->data());
  return {};
}

}  // namespace satchel
