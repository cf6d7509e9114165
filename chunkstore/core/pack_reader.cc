// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/pack_reader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "chunkstore/core/frame.h"

namespace satchel {
namespace {

Status ParseWhole(const uint8_t* buffer, size_t got, uint16_t length, RecordView* record) {
  SATCHEL_RETURN_IF_ERROR(ParseRecord(buffer, got, record));
  if (record->length == length) return {};
  return Status::Make(Kind::kDamaged, "bad chunk record", "its length is not the expected one");
}

struct KeptFrame {
  uint64_t reader = 0;  // whose it is; 0: nobody's
  Location at{};
  FrameDecoder decoder;
  const std::unique_ptr<uint8_t[]> bytes{new uint8_t[kMaxFrameSize]};
};

// The last frames of one thread. Two, because a volume that was changed here and there alternates
// between the frames of its base and those of the changes.
class KeptFrames {
 public:
  KeptFrame* Find(uint64_t reader, const Location& at) {
    for (KeptFrame& frame : frames_) {
      if (frame.reader != reader || !frame.at.SamePlace(at)) continue;
      newest_ = &frame;
      return &frame;
    }
    return nullptr;
  }

  KeptFrame* Oldest() {
    newest_ = newest_ == &frames_[0] ? &frames_[1] : &frames_[0];
    return newest_;
  }

 private:
  std::array<KeptFrame, 2> frames_;
  KeptFrame* newest_ = &frames_[0];
};

std::atomic<uint64_t> readers{0};

}  // namespace

PackReader::PackReader(Env* env, std::string folder)
    : env_(env), number_(++readers), folder_(std::move(folder)) {}

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

// What is at a place never changes while its pack is there, and numbers are not used again; so a
// frame that was read stays right.
Status PackReader::ReadSlot(const Location& at, uint8_t* block) {
  thread_local KeptFrames kept;
  if (KeptFrame* frame = kept.Find(number_, at)) return frame->decoder.Block(at.slot, block);
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(at.pack, &file));
  KeptFrame* const frame = kept.Oldest();
  frame->reader = 0;
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
  frame->reader = number_;
  frame->at = at;
  return {};
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
  if (!Find(at.pack, &file).ok()) return false;
  if (!file->ReadAt(at.offset, sizeof header, &header, &got).ok()) return false;
  return got == sizeof header && !at.in_frame() && header.magic == kRecordMagic &&
         header.length == at.length && std::memcmp(header.id, ref.id(), kChunkIdSize) == 0 &&
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
