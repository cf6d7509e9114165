// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What a host says to the guest's agent. The frames in a stream are the same in whatever pieces it
// comes, and a frame is found between any two others' rubbish. What a guest says is read by Python
// (tests/hostile).
#include <algorithm>
#include <cstring>
#include <vector>

#include "replay/agent/frame.h"
#include "tests/native/fuzz/require.h"

using satchel::Frame;
using satchel::fuzz::Require;

namespace {

std::vector<Frame> FramesIn(std::string_view data, size_t piece) {
  satchel::FrameReader reader;
  std::vector<Frame> frames;
  Frame frame;
  while (!data.empty()) {
    std::string_view next = data.substr(0, piece);
    data.remove_prefix(next.size());
    while (reader.Next(&next, &frame)) frames.push_back(frame);
    Require(next.empty());
  }
  return frames;
}

bool Same(const Frame& one, const Frame& other) {
  return one.payload == other.payload &&
         std::memcmp(&one.header, &other.header, sizeof one.header) == 0;
}

std::string Written(const satchel::FrameHeader& header, std::string_view payload) {
  satchel::FrameWriter writer;
  writer.Add(header, std::make_shared<const std::string>(payload));
  std::string stream;
  for (std::string_view next = writer.Pending(); !next.empty(); next = writer.Pending()) {
    stream += next;
    writer.Written(next.size());
  }
  return stream;
}

}  // namespace

// The first four bytes are a frame's, the first of them the size of the pieces as well.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  satchel::FrameHeader header;
  std::memcpy(&header.id, data, sizeof header.id);
  header.type = data[1];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 4, size - 4);
  const std::string_view payload = bytes.substr(0, bytes.size() / 2);
  const std::string_view rubbish = bytes.substr(payload.size());

  std::string stream = std::string(bytes) + Written(header, payload);
  stream.append(rubbish).append(Written(header, rubbish));
  const std::vector<Frame> whole = FramesIn(stream, stream.size());
  const std::vector<Frame> pieces = FramesIn(stream, data[0] % 64 + 1);
  Require(std::equal(whole.begin(), whole.end(), pieces.begin(), pieces.end(), Same));
  for (const Frame& frame : whole) Require(frame.header.length == frame.payload.size());
  const auto ours = [&](std::string_view expected) {
    return [&header, expected](const Frame& frame) {
      return frame.payload == expected && frame.header.id == header.id;
    };
  };
  Require(std::any_of(whole.begin(), whole.end(), ours(payload)));
  Require(ours(rubbish)(whole.back()));
  return 0;
}
