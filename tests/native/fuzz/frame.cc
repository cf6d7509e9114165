// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A frame of several chunks. The checksum is made right, so that the fuzzer gets behind it.
#include "chunkstore/core/format/frame.h"

#include <cstddef>
#include <cstring>

#include "chunkstore/core/format/hash.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::fuzz::Require;

static void Decode(const uint8_t* data, size_t size) {
  satchel::FrameView frame;
  if (!satchel::ParseFrame(data, size, &frame).ok()) return;
  Require(frame.size() <= size && frame.size() <= satchel::kMaxFrameSize);
  Require(frame.count > 0 && frame.count <= satchel::kMaxFrameChunks);
  satchel::FrameDecoder decoder;
  decoder.Start(frame);
  uint8_t block[satchel::kBlockSize];
  for (const unsigned slot : {0u, frame.count - 1u, unsigned{frame.count}, 2u}) {
    const bool got = decoder.Block(slot, block).ok();
    Require(!got || slot < frame.count);
    if (got) (void)satchel::IsZeroBlock(block);
  }
  std::vector<satchel::ChunkRef> names;
  if (satchel::NameFrame(frame, &decoder, &names).ok()) Require(names.size() == frame.count);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Decode(data, size);
  if (size <= satchel::kFrameHeaderSize) return 0;
  satchel::FrameHeader header;
  std::memcpy(&header, data, sizeof header);
  const size_t length =
      std::min<size_t>(size - satchel::kFrameHeaderSize, satchel::kMaxFramePayload);
  header.magic = satchel::kFrameMagic;
  header.codec = data[4] % 2 != 0 ? satchel::FrameCodec::kPages : satchel::FrameCodec::kBlocks;
  header.count = static_cast<uint8_t>(1 + header.count % satchel::kMaxFrameChunks);
  header.length = static_cast<uint16_t>(length);
  const auto* payload = reinterpret_cast<const char*>(data) + satchel::kFrameHeaderSize;
  std::string covered(reinterpret_cast<const char*>(&header),
                      offsetof(satchel::FrameHeader, checksum));
  covered.append(payload, length);
  header.checksum = satchel::Checksum64(covered.data(), covered.size());
  std::string whole(reinterpret_cast<const char*>(&header), sizeof header);
  whole.append(payload, length);
  Decode(reinterpret_cast<const uint8_t*>(whole.data()), whole.size());
  return 0;
}
