// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/frame.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace satchel {
namespace {

constexpr size_t kPiece = 32u << 10;

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t n = 0; n < 256; ++n) {
    uint32_t c = n;
    for (int bit = 0; bit < 8; ++bit) c = (c & 1) ? 0xEDB88320u ^ (c >> 1) : c >> 1;
    table[n] = c;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

bool IsSpecial(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == kEnd || byte == kEsc;
}

void AppendStuffed(std::string_view plain, std::string* out) {
  for (const char c : plain) {
    if (!IsSpecial(c)) {
      out->push_back(c);
      continue;
    }
    out->push_back(static_cast<char>(kEsc));
    const bool end = static_cast<unsigned char>(c) == kEnd;
    out->push_back(static_cast<char>(end ? kEscEnd : kEscEsc));
  }
}

}  // namespace

uint32_t Crc32(std::string_view data, uint32_t seed) {
  uint32_t c = ~seed;
  for (const char byte : data)
    c = kCrcTable[(c ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (c >> 8);
  return ~c;
}

void FrameReader::Reset() {
  std::string().swap(content_);
  escaped_ = false;
  skipping_ = false;
}

void FrameReader::Take(std::string_view plain) {
  if (skipping_) return;
  content_.append(plain);
  if (content_.size() >= sizeof(kFrameMagic) &&
      memcmp(content_.data(), &kFrameMagic, sizeof(kFrameMagic)) != 0) {
    skipping_ = true;
  }
  if (content_.size() > kFrameHeaderSize + kMaxPayload) skipping_ = true;
  if (skipping_) std::string().swap(content_);
}

bool FrameReader::Judge(Frame* frame) {
  const bool whole = !skipping_ && !escaped_ && content_.size() >= kFrameHeaderSize;
  std::string content;
  content.swap(content_);
  Reset();
  if (!whole) return false;
  memcpy(&frame->header, content.data(), kFrameHeaderSize);
  const FrameHeader& header = frame->header;
  if (header.magic != kFrameMagic || header.version != kFrameVersion) return false;
  if (header.length != content.size() - kFrameHeaderSize) return false;
  const std::string_view view = content;
  const uint32_t crc = Crc32(view.substr(kFrameHeaderSize), Crc32(view.substr(0, kCrcOffset)));
  if (crc != header.crc) return false;
  content.erase(0, kFrameHeaderSize);
  frame->payload.swap(content);
  return true;
}

bool FrameReader::Next(std::string_view* data, Frame* frame) {
  while (!data->empty()) {
    if (escaped_) {
      const auto byte = static_cast<unsigned char>(data->front());
      if (byte == kEscEnd || byte == kEscEsc) {
        const char plain = static_cast<char>(byte == kEscEnd ? kEnd : kEsc);
        Take(std::string_view(&plain, 1));
        data->remove_prefix(1);
      } else {
        skipping_ = true;
      }
      escaped_ = false;
      continue;
    }
    const auto special = std::find_if(data->begin(), data->end(), IsSpecial);
    const auto run = static_cast<size_t>(special - data->begin());
    if (run > 0) Take(data->substr(0, run));
    data->remove_prefix(run);
    if (data->empty()) return false;
    const bool end = static_cast<unsigned char>(data->front()) == kEnd;
    data->remove_prefix(1);
    if (!end) {
      escaped_ = true;
    } else if (Judge(frame)) {
      return true;
    }
  }
  return false;
}

void FrameWriter::Reset() {
  queue_.clear();
  staged_.clear();
  staged_offset_ = 0;
}

void FrameWriter::Add(FrameHeader header, std::shared_ptr<const std::string> payload) {
  static const auto kNothing = std::make_shared<const std::string>();
  Outgoing out;
  out.payload = payload ? std::move(payload) : kNothing;
  header.length = static_cast<uint32_t>(out.payload->size());
  std::string_view bytes(reinterpret_cast<const char*>(&header), kFrameHeaderSize);
  header.crc = Crc32(*out.payload, Crc32(bytes.substr(0, kCrcOffset)));
  out.header.push_back(static_cast<char>(kEnd));
  AppendStuffed(bytes, &out.header);
  queue_.push_back(std::move(out));
}

void FrameWriter::Stage() {
  staged_.clear();
  staged_offset_ = 0;
  if (queue_.empty()) return;
  Outgoing& out = queue_.front();
  staged_.swap(out.header);
  const std::string_view rest = std::string_view(*out.payload).substr(out.offset);
  const std::string_view piece = rest.substr(0, kPiece);
  AppendStuffed(piece, &staged_);
  out.offset += piece.size();
  if (out.offset < out.payload->size()) return;
  staged_.push_back(static_cast<char>(kEnd));
  queue_.pop_front();
}

std::string_view FrameWriter::Pending() {
  if (staged_offset_ == staged_.size()) Stage();
  return std::string_view(staged_).substr(staged_offset_);
}

}  // namespace satchel
