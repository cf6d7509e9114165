// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/packs/pack_reader.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "chunkstore/core/format/frame.h"

namespace satchel {
namespace {

Status ParseWhole(const uint8_t* buffer, size_t got, uint16_t length, RecordView* record) {
  SATCHEL_RETURN_IF_ERROR(ParseRecord(buffer, got, record));
  if (record->length == length) return {};
  return Status::Make(Kind::kDamaged, "bad chunk record", "its length is not the expected one");
}

}  // namespace

struct PackReader::KeptFrame {
  Location at{};       // pack 0: nothing
  int processor = -1;  // that used it last
  FrameDecoder decoder;
  const std::unique_ptr<uint8_t[]> bytes{new uint8_t[kMaxFrameSize]};
};

PackReader::PackReader(Env* env, std::string folder) : env_(env), folder_(std::move(folder)) {}

PackReader::~PackReader() = default;

std::string PackName(uint32_t pack) {
  char name[32];
  std::snprintf(name, sizeof name, "%06u.pack", pack);
  return name;
}

bool ParsePackName(const std::string& name, uint32_t* pack) {
  unsigned number = 0;
  if (name.size() < 11 || std::sscanf(name.c_str(), "%9u", &number) != 1) return false;
  *pack = number;
  return PackName(number) == name;
}

Status PackReader::ReadRaw(const Location& at, uint8_t* buffer, RecordView* record) {
  if (at.length == 0 || at.in_frame()) {
    return Status::Make(Kind::kDamaged, "bad chunk record", "its length is out of range");
  }
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(at.pack, &file));
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(file->ReadAt(at.offset, at.size(), buffer, &got));
  return ParseWhole(buffer, got, at.length, record);
}

Status PackReader::ReadBlock(const Location& at, uint8_t* block) {
  if (at.in_frame()) return ReadSlot(at, block);
  uint8_t buffer[kMaxRecordSize];
  RecordView record;
  SATCHEL_RETURN_IF_ERROR(ReadRaw(at, buffer, &record));
  return DecodeRecord(record, block);
}

Status PackReader::ReadRun(const Location* at, size_t n, uint8_t* blocks) {
  const auto raw = [](const Location& each) { return each.length == kBlockSize; };
  if (std::all_of(at, at + n, raw)) return ReadRawRun(at, n, blocks);
  thread_local std::vector<uint8_t> span;
  const size_t size = at[n - 1].offset + at[n - 1].size() - at[0].offset;
  if (span.size() < size) span.resize(size);
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(ReadSpan(at[0].pack, at[0].offset, size, span.data(), &got));
  for (size_t i = 0; i < n; ++i) {
    const size_t begin = at[i].offset - at[0].offset;
    RecordView record;
    SATCHEL_RETURN_IF_ERROR(
        ParseWhole(span.data() + begin, got > begin ? got - begin : 0, at[i].length, &record));
    SATCHEL_RETURN_IF_ERROR(DecodeRecord(record, blocks + i * kBlockSize));
  }
  return {};
}

// Each payload is read to where it belongs.
Status PackReader::ReadRawRun(const Location* at, size_t n, uint8_t* blocks) {
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(at[0].pack, &file));
  RecordHeader headers[kMaxRun];
  File::Piece pieces[2 * kMaxRun];
  for (size_t i = 0; i < n; ++i) {
    pieces[2 * i] = {&headers[i], sizeof headers[i]};
    pieces[2 * i + 1] = {blocks + i * kBlockSize, kBlockSize};
  }
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(file->ReadPieces(at[0].offset, pieces, 2 * n, &got));
  for (size_t i = 0; i < n; ++i) {
    if (got < (i + 1) * kMaxRecordSize) {
      return Status::Make(Kind::kDamaged, "bad chunk record", "it is cut off");
    }
    SATCHEL_RETURN_IF_ERROR(CheckRawRecord(headers[i], blocks + i * kBlockSize));
  }
  return {};
}

// What is at a place never changes while its pack is there, and numbers are not used again; so a
// frame that was read stays right.
Status PackReader::ReadSlot(const Location& at, uint8_t* block) {
  std::unique_ptr<KeptFrame> frame = TakeFrame(at);
  const Status status = frame->at.SamePlace(at) ? frame->decoder.Block(at.slot, block)
                                                : ReadFrame(at, frame.get(), block);
  if (!status.ok()) frame->at = Location{};
  frame->processor = sched_getcpu();
  const MutexLock lock(&frames_mutex_);
  frames_.push_back(std::move(frame));
  return status;
}

// Reads another frame than the one that was kept there, and its slot.
Status PackReader::ReadFrame(const Location& at, KeptFrame* frame, uint8_t* block) {
  frame->at = Location{};
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(at.pack, &file));
  size_t got = 0;
  FrameView view;
  const size_t size = std::min<size_t>(at.size(), kMaxFrameSize);
  SATCHEL_RETURN_IF_ERROR(file->ReadAt(at.offset, size, frame->bytes.get(), &got));
  SATCHEL_RETURN_IF_ERROR(ParseFrame(frame->bytes.get(), got, &view));
  if (FrameLength(view.length) != at.length) {
    return Status::Make(Kind::kDamaged, "bad frame", "its length is not the expected one");
  }
  frame->decoder.Start(view);
  SATCHEL_RETURN_IF_ERROR(frame->decoder.Block(at.slot, block));
  frame->at = at;
  return {};
}

// The one that has the frame at `at`, if there is one, else one to read it into: the older of the
// two that this processor used last, whose memory it still has in its caches.
std::unique_ptr<PackReader::KeptFrame> PackReader::TakeFrame(const Location& at) {
  const int processor = sched_getcpu();
  const MutexLock lock(&frames_mutex_);
  auto taken = frames_.end();
  size_t here = 0;
  for (auto each = frames_.end(); each != frames_.begin();) {
    --each;
    if ((*each)->at.SamePlace(at)) {
      taken = each;
      break;
    }
    if ((*each)->processor == processor && ++here == kKeptFrames) taken = each;
  }
  if (taken == frames_.end() && frames_.size() >= kMostFrames) taken = frames_.begin();
  if (taken == frames_.end()) return std::make_unique<KeptFrame>();
  std::unique_ptr<KeptFrame> frame = std::move(*taken);
  frames_.erase(taken);
  return frame;
}

Status PackReader::ReadSpan(uint32_t pack, uint64_t offset, size_t n, uint8_t* buffer,
                            size_t* got) {
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(pack, &file));
  return file->ReadAt(offset, n, buffer, got);
}

Status PackReader::ReadSpanUncached(uint32_t pack, uint64_t offset, size_t n, uint8_t* buffer,
                                    size_t* got) {
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(pack, &file));
  return file->ReadUncached(offset, n, buffer, got);
}

bool PackReader::IsRecordOf(const ChunkRef& ref, const Location& at) {
  std::shared_ptr<File> file;
  RecordHeader header;
  size_t got = 0;
  if (at.in_frame() || !Find(at.pack, &file).ok()) return false;
  if (!file->ReadAt(at.offset, sizeof header, &header, &got).ok()) return false;
  return got == sizeof header && header.magic == kRecordMagic && header.length == at.length &&
         std::memcmp(header.id, ref.id(), kChunkIdSize) == 0 &&
         std::memcmp(header.digest, ref.digest(), kDigestSize) == 0;
}

bool PackReader::IsFrame(const Location& at) {
  std::shared_ptr<File> file;
  FrameHeader header;
  size_t got = 0;
  if (!at.in_frame() || !Find(at.pack, &file).ok()) return false;
  if (!file->ReadAt(at.offset, sizeof header, &header, &got).ok()) return false;
  return got == sizeof header && header.magic == kFrameMagic && at.slot < header.count &&
         FrameLength(header.length) == at.length;
}

void PackReader::Forget(uint32_t pack) {
  const AloneLock lock(&mutex_);
  files_.erase(pack);
}

Status PackReader::Find(uint32_t pack, std::shared_ptr<File>* file) {
  {
    const SharedLock lock(&mutex_);
    const auto found = files_.find(pack);
    if (found != files_.end()) {
      *file = found->second;
      return {};
    }
  }
  std::unique_ptr<File> opened;
  SATCHEL_RETURN_IF_ERROR(env_->Open(folder_ + "/" + PackName(pack), OpenMode::kRead, &opened));
  const AloneLock lock(&mutex_);
  // A file that another thread is reading stays open until that thread drops it.
  if (files_.size() >= kMaxOpen) files_.erase(files_.begin());
  *file = files_.emplace(pack, std::move(opened)).first->second;
  return {};
}

}  // namespace satchel
