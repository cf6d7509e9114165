// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/packs/pack_scan.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace satchel {
namespace {

constexpr uint32_t kMaxUnit = std::max(kMaxRecordSize, kMaxFrameSize);
constexpr uint64_t kPiece = uint64_t{1} << 20;  // bytes

// A window on the bytes of the file before `end` that moves forward. It holds at least one record
// or frame of the largest size, if that many bytes are left.
class Window {
 public:
  Window(File* file, uint64_t begin, uint64_t end) : file_(file), end_(end), start_(begin) {}

  Status MoveTo(uint64_t offset) {
    position_ = static_cast<size_t>(offset - start_);
    if (start_ + bytes_.size() >= std::min(offset + kMaxUnit, end_)) return {};
    bytes_.resize(static_cast<size_t>(std::min(kPiece, end_ - offset)));
    size_t got = 0;
    SATCHEL_RETURN_IF_ERROR(file_->ReadAt(offset, bytes_.size(), bytes_.data(), &got));
    bytes_.resize(got);
    start_ = offset;
    position_ = 0;
    return {};
  }

  const uint8_t* data() const { return bytes_.data() + position_; }
  size_t size() const { return bytes_.size() - position_; }

 private:
  File* const file_;
  const uint64_t end_;
  uint64_t start_;
  std::vector<uint8_t> bytes_;
  size_t position_ = 0;
};

// Bytes from the front of `data` to the next place, not the first, that may begin a record or a
// frame. One byte is never cut off by the end of the window.
size_t Skip(const uint8_t* data, size_t n) {
  constexpr auto kFirst = static_cast<uint8_t>(kRecordMagic);
  static_assert(kFirst == static_cast<uint8_t>(kFrameMagic), "both magics begin with it");
  return static_cast<size_t>(std::find(data + 1, data + n, kFirst) - data);
}

bool IsFrame(const uint8_t* data, size_t n) {
  return n >= sizeof kFrameMagic && std::memcmp(data, &kFrameMagic, sizeof kFrameMagic) == 0;
}

}  // namespace

Status CheckPackHeader(File* file) {
  uint8_t header[kPackHeaderSize];
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(file->ReadAt(0, sizeof header, header, &got));
  if (got < sizeof header || std::memcmp(header, kPackMagic, sizeof kPackMagic) != 0) {
    return Status::Make(Kind::kDamaged, "not a pack", "its header is not that of a pack");
  }
  uint32_t fields[2];
  std::memcpy(fields, header + sizeof kPackMagic, sizeof fields);
  const auto [version, reserved] = fields;
  if (version != kPackVersion) {
    return Status::Make(Kind::kUnsupported, "cannot read a pack",
                        "its version is " + std::to_string(version) + ", this program knows " +
                            std::to_string(kPackVersion));
  }
  if (reserved == 0) return {};
  return Status::Make(Kind::kDamaged, "not a pack", "a reserved field is not zero");
}

Status ScanPack(File* file, uint64_t begin, uint64_t end, const ScanVisitor& visitor) {
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  const uint64_t all = std::max(begin, std::min(size, end));
  Window window(file, begin, std::min(all, kPackLimit));
  uint64_t offset = begin;
  uint64_t whole = begin;  // where the last record or frame ends
  bool chained = true;
  std::string why;
  for (;;) {
    SATCHEL_RETURN_IF_ERROR(window.MoveTo(offset));
    if (window.size() == 0) break;
    RecordView record;
    FrameView frame;
    const bool framed = IsFrame(window.data(), window.size());
    const Status parsed = framed ? ParseFrame(window.data(), window.size(), &frame)
                                 : ParseRecord(window.data(), window.size(), &record);
    if (!parsed.ok()) {
      if (whole == offset) why = parsed.why();
      chained = false;
      offset += Skip(window.data(), window.size());
      continue;
    }
    if (whole < offset) SATCHEL_RETURN_IF_ERROR(visitor.on_garbage(whole, offset, why));
    SATCHEL_RETURN_IF_ERROR(framed ? visitor.on_frame(offset, frame)
                                   : visitor.on_record(offset, record, chained));
    offset += framed ? frame.size() : record.size();
    whole = offset;
  }
  if (whole == all) return {};
  if (whole == offset) why = "a pack has at most 256 MiB";
  return visitor.on_garbage(whole, all, why);
}

Status IsHole(File* file, uint64_t begin, uint64_t end, bool* hole) {
  uint8_t bytes[kBlockSize];
  *hole = true;
  for (uint64_t at = begin; at < end && *hole; at += sizeof bytes) {
    size_t got = 0;
    SATCHEL_RETURN_IF_ERROR(file->ReadAt(at, std::min(sizeof bytes, end - at), bytes, &got));
    *hole = std::all_of(bytes, bytes + got, [](uint8_t byte) { return byte == 0; });
  }
  return {};
}

}  // namespace satchel
