// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/pack_reader.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace satchel {
namespace {

Status ParseWhole(const uint8_t* buffer, size_t got, uint16_t length, RecordView* record) {
  SATCHEL_RETURN_IF_ERROR(ParseRecord(buffer, got, record));
  if (record->length == length) return {};
  return Status::Make(Kind::kDamaged, "bad chunk record", "its length is not the expected one");
}

}  // namespace

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
  if (at.length == 0 || at.length > kBlockSize) {
    return Status::Make(Kind::kDamaged, "bad chunk record", "its length is out of range");
  }
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(at.pack, &file));
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(file->ReadAt(at.offset, at.size(), buffer, &got));
  return ParseWhole(buffer, got, at.length, record);
}

Status PackReader::ReadRecord(const Location& at, uint8_t* block) {
  uint8_t buffer[kMaxRecordSize];
  RecordView record;
  SATCHEL_RETURN_IF_ERROR(ReadRaw(at, buffer, &record));
  return DecodeRecord(record, block);
}

Status PackReader::ReadSpan(uint32_t pack, uint64_t offset, size_t n, uint8_t* buffer,
                            size_t* got) {
  std::shared_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(Find(pack, &file));
  return file->ReadAt(offset, n, buffer, got);
}

bool PackReader::IsRecordOf(const ChunkRef& ref, const Location& at) {
  std::shared_ptr<File> file;
  RecordHeader header;
  size_t got = 0;
  if (!Find(at.pack, &file).ok()) return false;
  if (!file->ReadAt(at.offset, sizeof header, &header, &got).ok()) return false;
  return got == sizeof header && header.magic == kRecordMagic && header.length == at.length &&
         std::memcmp(header.id, ref.id(), kChunkIdSize) == 0 &&
         std::memcmp(header.digest, ref.digest(), kDigestSize) == 0;
}

Status PackReader::ReadRecord(int fd, uint32_t offset, uint16_t length, uint8_t* block) {
  uint8_t buffer[kMaxRecordSize];
  if (length == 0 || length > kBlockSize) {
    return Status::Make(Kind::kDamaged, "bad chunk record", "its length is out of range");
  }
  ssize_t got;
  do {
    got = pread(fd, buffer, kRecordHeaderSize + length, offset);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return Status::FromErrno("cannot read a pack", errno);
  RecordView record;
  SATCHEL_RETURN_IF_ERROR(ParseWhole(buffer, static_cast<size_t>(got), length, &record));
  return DecodeRecord(record, block);
}

void PackReader::Forget(uint32_t pack) {
  std::unique_lock lock(mutex_);
  files_.erase(pack);
}

Status PackReader::Find(uint32_t pack, std::shared_ptr<File>* file) {
  {
    std::shared_lock lock(mutex_);
    const auto found = files_.find(pack);
    if (found != files_.end()) {
      *file = found->second;
      return {};
    }
  }
  std::unique_ptr<File> opened;
  SATCHEL_RETURN_IF_ERROR(env_->Open(folder_ + "/" + PackName(pack), OpenMode::kRead, &opened));
  std::unique_lock lock(mutex_);
  // A file that another thread is reading stays open until that thread drops it.
  if (files_.size() >= kMaxOpen) files_.erase(files_.begin());
  *file = files_.emplace(pack, std::move(opened)).first->second;
  return {};
}

}  // namespace satchel
