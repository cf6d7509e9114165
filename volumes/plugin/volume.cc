// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "volumes/plugin/volume.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>
#include <utility>

namespace satchel {
namespace {

constexpr char kZeroBlock[kBlockSize] = {};

uint64_t BlockOf(uint64_t offset) { return offset / kBlockSize; }

uint64_t BlocksIn(uint64_t bytes) { return (bytes + kBlockSize - 1) / kBlockSize; }

}  // namespace

Status Volume::Open(const VolumeConfig& config, uint32_t index, std::unique_ptr<File> overlay,
                    const Sources& sources, std::unique_ptr<Volume>* volume) {
  std::unique_ptr<Volume> opened(new Volume(config, index, sources));
  SATCHEL_RETURN_IF_ERROR(BlockMap::OpenShared(config.map_path, &opened->map_));
  if (opened->map_->blocks() != BlocksIn(config.size)) {
    return Status::Make(Kind::kDamaged, "cannot use the block map " + config.map_path,
                        "it has " + std::to_string(opened->map_->blocks()) + " blocks");
  }
  opened->overlay_ = std::move(overlay);
  opened->reclaimer_ =
      std::make_unique<Reclaimer>(opened->map_.get(), opened->overlay_.get(), &opened->stripes_);
  *volume = std::move(opened);
  return {};
}

Volume::Volume(VolumeConfig config, uint32_t index, const Sources& sources)
    : config_(std::move(config)), index_(index), sources_(sources) {}

Status Volume::Read(uint64_t offset, uint64_t count, char* out) {
  Touch(offset, count);
  while (count > 0) {
    const uint64_t block = BlockOf(offset);
    const uint64_t skip = offset % kBlockSize;
    const uint64_t end = BlocksIn(offset + count);
    const BlockState state = StateOf(block);
    const bool alone = state == BlockState::kPacked;
    if (alone && skip == 0) {
      const uint64_t done = ReadPackedRun(block, count / kBlockSize, out) * kBlockSize;
      out += done;
      offset += done;
      count -= done;
      if (done > 0) continue;
    }
    const uint64_t run = alone ? 1 : RunEnd(block, end, state) - block;
    uint64_t length = std::min(count, run * kBlockSize - skip);
    bool valid = true;
    std::string unkept;
    switch (state) {
      case BlockState::kAbsent:
        SATCHEL_RETURN_IF_ERROR(Fetch(block, run, &unkept));
        if (unkept.empty()) continue;
        length = std::min<uint64_t>(length, unkept.size() - skip);
        std::memcpy(out, unkept.data() + skip, length);
        break;
      case BlockState::kZero:
        std::memset(out, 0, length);
        break;
      case BlockState::kPacked:
        SATCHEL_RETURN_IF_ERROR(ReadPacked(block, skip, length, out, &valid));
        break;
      case BlockState::kDirty:
        SATCHEL_RETURN_IF_ERROR(ReadDirty(offset, length, out, &valid));
        break;
    }
    if (!valid) continue;
    out += length;
    offset += length;
    count -= length;
  }
  return {};
}

Status Volume::Write(uint64_t offset, uint64_t count, const char* data) {
  Touch(offset, count);
  return ForEachSpan(offset, count, [&](const Span& span) {
    const char* piece = data + (span.offset - offset);
    return span.whole ? WriteWhole(span, piece) : WritePart(span, piece);
  });
}

Status Volume::Zero(uint64_t offset, uint64_t count) {
  Touch(offset, count);
  return ForEachSpan(offset, count, [&](const Span& span) {
    return span.whole ? ZeroWhole(span) : WritePart(span, kZeroBlock);
  });
}

Status Volume::Trim(uint64_t offset, uint64_t count) {
  return ForEachSpan(offset, count,
                     [&](const Span& span) { return span.whole ? ZeroWhole(span) : Status(); });
}

Status Volume::Flush() { return config_.read_only ? Status() : overlay_->Sync(); }

void Volume::Extents(
    uint64_t offset, uint64_t count,
    const std::function<bool(uint64_t offset, uint64_t length, bool zero)>& visit) const {
  const uint64_t stop = offset + count;
  const uint64_t end = BlocksIn(stop);
  while (offset < stop) {
    uint64_t block = BlockOf(offset);
    const bool zero = StateOf(block) == BlockState::kZero;
    do {
      ++block;
    } while (block < end && (StateOf(block) == BlockState::kZero) == zero);
    const uint64_t next = std::min(block * kBlockSize, stop);
    if (!visit(offset, next - offset, zero)) return;
    offset = next;
  }
}

void Volume::Touch(uint64_t offset, uint64_t count) {
  const uint64_t first = BlockOf(offset);
  map_->Touch(first, BlocksIn(offset + count) - first);
}

// The end, at most `end`, of the blocks from `block` on that are in `state`.
uint64_t Volume::RunEnd(uint64_t block, uint64_t end, BlockState state) const {
  do {
    ++block;
  } while (block < end && StateOf(block) == state);
  return block;
}

Status Volume::Fetch(uint64_t first, uint64_t count, std::string* content) {
  count = std::min<uint64_t>(count, kMissLimit);
  SATCHEL_RETURN_IF_ERROR(
      sources_.misses->Ask(index_, first, static_cast<uint32_t>(count), content));
  if (!content->empty()) return {};
  for (uint64_t block = first; block < first + count; ++block) {
    if (StateOf(block) == BlockState::kAbsent) {
      return Status::Make(Kind::kMissing, "cannot read block " + std::to_string(block),
                          "the daemon says that it is here, and the block map says absent");
    }
  }
  return {};
}

// `*valid` is false when the daemon has taken one of the blocks out of the overlay meanwhile.
Status Volume::ReadDirty(uint64_t offset, uint64_t length, char* out, bool* valid) {
  SATCHEL_RETURN_IF_ERROR(ReadOverlay(offset, length, out));
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t end = BlocksIn(offset + length);
  *valid = RunEnd(BlockOf(offset), end, BlockState::kDirty) == end &&
           StateOf(BlockOf(offset)) == BlockState::kDirty;
  return {};
}

// `*valid` is false when the entry has changed meanwhile, so that what was read means nothing.
Status Volume::ReadPacked(uint64_t block, uint64_t skip, uint64_t length, char* out, bool* valid) {
  const BlockEntry entry = map_->Load(block);
  *valid = entry.state == BlockState::kPacked;
  if (!*valid) return {};
  uint8_t content[kBlockSize];
  const bool direct = length == kBlockSize;
  uint8_t* const to = direct ? reinterpret_cast<uint8_t*>(out) : content;
  Status status = sources_.reader != nullptr ? AskReader(block, 1, to) : ReadChunk(entry.at, to);
  if (!status.ok()) {
    *valid = EncodeEntry(map_->Load(block)) == EncodeEntry(entry);
    if (!*valid) return {};
    return Status::Make(status.kind(),
                        "cannot read block " + std::to_string(block) + " from offset " +
                            std::to_string(entry.at.offset) + " of " + PackName(entry.at.pack),
                        status.ToString());
  }
  if (!direct) std::memcpy(out, content + skip, length);
  return {};
}

Status Volume::AskReader(uint64_t block, uint64_t n, uint8_t* out) {
  std::string content;
  SATCHEL_RETURN_IF_ERROR(sources_.reader->Ask(index_, block, static_cast<uint32_t>(n), &content));
  if (content.size() != n * kBlockSize) {
    return Status::Make(Kind::kDamaged, "the block reader sent no content");
  }
  std::memcpy(out, content.data(), content.size());
  return {};
}

Status Volume::ReadChunk(const Location& at, uint8_t* block) {
  Unpacked* const unpacked = at.in_frame() ? sources_.unpacked : nullptr;
  if (unpacked != nullptr && unpacked->Find(at, block)) return {};
  SATCHEL_RETURN_IF_ERROR(sources_.packs->ReadBlock(at, block));
  if (unpacked != nullptr) unpacked->Keep(at, block);
  return {};
}

// Reads whole blocks that the block reader has, or whose records lie side by side in a pack,
// together, and gives their number: 0
// if there are no two of them, or if one cannot be read, which reading it alone has to judge.
uint64_t Volume::ReadPackedRun(uint64_t block, uint64_t count, char* out) {
  if (sources_.reader != nullptr) {
    const uint64_t most = std::min<uint64_t>(count, kMissLimit);
    const uint64_t n = most < 2 ? 0 : RunEnd(block, block + most, BlockState::kPacked) - block;
    return n >= 2 && AskReader(block, n, reinterpret_cast<uint8_t*>(out)).ok() ? n : 0;
  }
  Location at[PackReader::kMaxRun];
  size_t n = 0;
  while (n < std::min<uint64_t>(count, PackReader::kMaxRun)) {
    const BlockEntry entry = map_->Load(block + n);
    if (entry.state != BlockState::kPacked) break;
    if (n > 0 && !PackReader::Follows(entry.at, at[n - 1])) break;
    at[n++] = entry.at;
  }
  if (n < 2 || !sources_.packs->ReadRun(at, n, reinterpret_cast<uint8_t*>(out)).ok()) return 0;
  return n;
}

Status Volume::ReadOverlay(uint64_t offset, uint64_t length, char* out) {
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(overlay_->ReadAt(offset, length, out, &got));
  std::memset(out + got, 0, length - got);
  return {};
}

Status Volume::ForEachSpan(uint64_t offset, uint64_t count,
                           const std::function<Status(const Span&)>& visit) {
  const uint64_t stop = offset + count;
  while (offset < stop) {
    const uint64_t skip = offset % kBlockSize;
    const uint64_t block_end = offset - skip + kBlockSize;
    Span span{offset, 0, false};
    if (skip != 0 || (stop < block_end && stop < size())) {
      span.length = std::min(stop, block_end) - offset;
    } else {
      const uint64_t whole_stop = stop == size() ? stop : stop - stop % kBlockSize;
      span.length = std::min(whole_stop, Stripes::EndOf(BlockOf(offset)) * kBlockSize) - offset;
      span.whole = true;
    }
    SATCHEL_RETURN_IF_ERROR(visit(span));
    offset += span.length;
  }
  return {};
}

// Bytes of blocks of one stripe that are whole, or dirty already.
Status Volume::Dirty(SharedMutex* stripe, uint64_t offset, uint64_t length, const char* data) {
  SATCHEL_RETURN_IF_ERROR(overlay_->WriteAt(offset, data, length));
  MarkDirty(stripe, offset, length);
  return {};
}

Status Volume::DirtyZeros(SharedMutex* stripe, uint64_t offset, uint64_t length) {
  Status status = overlay_->PunchHole(offset, BlocksIn(length) * kBlockSize);
  if (status.Is(Kind::kUnsupported)) status = ZerosInto(stripe, offset, length);
  SATCHEL_RETURN_IF_ERROR(status);
  MarkDirty(stripe, offset, length);
  return {};
}

Status Volume::ZerosInto(SharedMutex*, uint64_t offset, uint64_t length) {
  for (uint64_t at = 0; at < length; at += kBlockSize) {
    const uint64_t piece = std::min<uint64_t>(kBlockSize, length - at);
    SATCHEL_RETURN_IF_ERROR(overlay_->WriteAt(offset + at, kZeroBlock, piece));
  }
  return {};
}

// Their bytes are in the overlay already.
void Volume::MarkDirty(SharedMutex*, uint64_t offset, uint64_t length) {
  const uint64_t end = BlocksIn(offset + length);
  for (uint64_t block = BlockOf(offset); block < end; ++block) map_->MarkDirty(block);
}

Status Volume::WriteWhole(const Span& span, const char* data) {
  SharedMutex* const stripe = StripeOf(span.offset);
  const SharedLock lock(stripe);
  return Dirty(stripe, span.offset, span.length, data);
}

Status Volume::WritePart(const Span& span, const char* data) {
  const uint64_t block = BlockOf(span.offset);
  SharedMutex* const stripe = StripeOf(span.offset);
  std::string unkept;
  if (StateOf(block) == BlockState::kAbsent) SATCHEL_RETURN_IF_ERROR(Fetch(block, 1, &unkept));
  {
    const SharedLock lock(stripe);
    if (StateOf(block) == BlockState::kDirty) {
      return Dirty(stripe, span.offset, span.length, data);
    }
  }
  const AloneLock alone(stripe);
  char content[kBlockSize] = {};
  const uint64_t begin = block * kBlockSize;
  const uint64_t length = std::min<uint64_t>(kBlockSize, size() - begin);
  if (StateOf(block) == BlockState::kAbsent) {
    assert(!unkept.empty());
    std::memcpy(content, unkept.data(), length);
  } else {
    SATCHEL_RETURN_IF_ERROR(Read(begin, length, content));
  }
  std::memcpy(content + (span.offset - begin), data, span.length);
  return Dirty(stripe, begin, length, content);
}

Status Volume::ZeroWhole(const Span& span) {
  SharedMutex* const stripe = StripeOf(span.offset);
  const SharedLock lock(stripe);
  const uint64_t block = BlockOf(span.offset);
  const uint64_t end = block + BlocksIn(span.length);
  if (StateOf(block) == BlockState::kZero && RunEnd(block, end, BlockState::kZero) == end) {
    return {};
  }
  return DirtyZeros(stripe, span.offset, span.length);
}

}  // namespace satchel
