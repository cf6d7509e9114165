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

// A window on the file that always holds at least one record or frame of the largest size, if that
// many bytes are left.
class Window {
 public:
  // For offsets from `begin` on.
  Window(File* file, uint64_t begin, uint64_t end)
      : file_(file), end_(end), bytes_(begin < end ? std::min(kCapacity, end - begin) : 0) {}

  Status MoveTo(uint64_t offset) {
    if (offset >= start_ && (offset + kMaxUnit <= start_ + size_ || at_end_)) {
      if (offset <= start_ + size_) {
        position_ = static_cast<size_t>(offset - start_);
        return {};
      }
    }
    start_ = offset;
    position_ = 0;
    const uint64_t left = offset < end_ ? end_ - offset : 0;
    const size_t want = static_cast<size_t>(std::min<uint64_t>(bytes_.size(), left));
    SATCHEL_RETURN_IF_ERROR(file_->ReadAt(offset, want, bytes_.data(), &size_));
    at_end_ = size_ < kCapacity;
    return {};
  }

  const uint8_t* data() const { return bytes_.data() + position_; }
  size_t size() const { return size_ - position_; }

 private:
  static constexpr uint64_t kCapacity = 1 << 20;  // bytes

  File* const file_;
  const uint64_t end_;
  std::vector<uint8_t> bytes_;
  uint64_t start_ = 0;
  size_t size_ = 0;
  size_t position_ = 0;
  bool at_end_ = false;
};

// Bytes from the front of `data` to the next place, not the first, that may begin a record or a
// frame.
size_t SkipToMagic(const uint8_t* data, size_t n) {
  static_assert((kRecordMagic & 0xffffff) == (kFrameMagic & 0xffffff), "they differ in one byte");
  uint8_t magic[3];
  std::memcpy(magic, &kRecordMagic, sizeof magic);
  const uint8_t* end = data + n;
  return static_cast<size_t>(std::search(data + 1, end, magic, magic + sizeof magic) - data);
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
  uint32_t version;
  std::memcpy(&version, header + sizeof kPackMagic, sizeof version);
  uint32_t reserved;
  std::memcpy(&reserved, header + sizeof kPackMagic + sizeof version, sizeof reserved);
  if (version == kPackVersion && reserved == 0) return {};
  if (version == kPackVersion) {
    return Status::Make(Kind::kDamaged, "not a pack", "a reserved field is not zero");
  }
  return Status::Make(Kind::kUnsupported, "cannot read a pack",
                      "its version is " + std::to_string(version) + ", this program knows " +
                          std::to_string(kPackVersion));
}

Status ScanPack(File* file, uint64_t begin, uint64_t end, const ScanVisitor& visitor) {
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  const uint64_t all = std::min(size, end);
  Window window(file, begin, std::min(all, kPackLimit));
  uint64_t offset = begin;
  uint64_t garbage = 0;  // bytes before `offset` that are no record
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
    if (parsed.ok()) {
      if (garbage > 0) SATCHEL_RETURN_IF_ERROR(visitor.on_garbage(offset - garbage, offset, why));
      garbage = 0;
      SATCHEL_RETURN_IF_ERROR(framed ? visitor.on_frame(offset, frame)
                                     : visitor.on_record(offset, record, chained));
      offset += framed ? frame.size() : record.size();
      continue;
    }
    if (garbage == 0) why = parsed.why();
    chained = false;
    const size_t step = SkipToMagic(window.data(), window.size());
    garbage += step;
    offset += step;
  }
  if (garbage == 0 && offset >= all) return {};
  if (garbage == 0) why = "a pack has at most 256 MiB";
  return visitor.on_garbage(offset - garbage, std::max(offset, all), why);
}

Status IsHole(File* file, uint64_t begin, uint64_t end, bool* hole) {
  std::vector<uint8_t> bytes(std::min<uint64_t>(end - begin, kPiece));
  *hole = true;
  for (uint64_t at = begin; at < end && *hole; at += bytes.size()) {
    const size_t n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), end - at));
    size_t got = 0;
    SATCHEL_RETURN_IF_ERROR(file->ReadAt(at, n, bytes.data(), &got));
    *hole = std::all_of(bytes.data(), bytes.data() + got, [](uint8_t byte) { return byte == 0; });
  }
  return {};
}

}  // namespace satchel
