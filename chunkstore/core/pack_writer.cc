// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/pack_writer.h"

#include <cstring>
#include <utility>

namespace satchel {

Status PendingSync::Run(Env* env) const {
  for (const auto& file : files) SATCHEL_RETURN_IF_ERROR(file->Sync());
  return folder.empty() ? Status() : env->SyncDir(folder);
}

PackWriter::PackWriter(Env* env, std::string folder, PackPosition end, uint64_t limit)
    : env_(env), folder_(std::move(folder)), limit_(limit), pack_(end.pack), flushed_(end.offset) {}

Status PackWriter::Append(const void* record, size_t n, Location* at) {
  if (pack_ == 0 || flushed_ + buffer_.size() + n > limit_) {
    SATCHEL_RETURN_IF_ERROR(Flush());
    SATCHEL_RETURN_IF_ERROR(StartPack());
  } else if (buffer_.size() + n > kBufferSize) {
    SATCHEL_RETURN_IF_ERROR(Flush());
  }
  at->pack = pack_;
  at->offset = static_cast<uint32_t>(flushed_ + buffer_.size());
  at->length = static_cast<uint16_t>(n - kRecordHeaderSize);
  buffer_.append(static_cast<const char*>(record), n);
  return {};
}

Status PackWriter::Flush() {
  if (buffer_.empty()) return {};
  SATCHEL_RETURN_IF_ERROR(OpenCurrent());
  if (unsynced_.empty() || unsynced_.back() != file_) unsynced_.push_back(file_);
  SATCHEL_RETURN_IF_ERROR(file_->WriteAt(flushed_, buffer_.data(), buffer_.size()));
  flushed_ += buffer_.size();
  buffer_.clear();
  return {};
}

Status PackWriter::TakePending(PendingSync* pending) {
  SATCHEL_RETURN_IF_ERROR(Flush());
  pending->files = std::exchange(unsynced_, {});
  pending->folder = std::exchange(folder_unsynced_, false) ? folder_ : std::string();
  pending->end = end();
  return {};
}

Status PackWriter::Roll() {
  SATCHEL_RETURN_IF_ERROR(Flush());
  flushed_ = limit_;
  file_.reset();
  return {};
}

bool PackWriter::InBuffer(const Location& at) const {
  return at.pack == pack_ && at.offset >= flushed_;
}

Status PackWriter::OpenCurrent() {
  if (file_ != nullptr) return {};
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env_->Open(folder_ + "/" + PackName(pack_), OpenMode::kReadWrite, &file));
  file_ = std::move(file);
  return {};
}

Status PackWriter::StartPack() {
  const uint32_t next = pack_ + 1;
  if (next >= kMaxPackNumber) {
    return Status::Make(Kind::kFull, "cannot start another pack in " + folder_,
                        "the format's limit of packs is reached");
  }
  uint8_t header[kPackHeaderSize] = {};
  std::memcpy(header, kPackMagic, sizeof kPackMagic);
  std::memcpy(header + sizeof kPackMagic, &kPackVersion, sizeof kPackVersion);

  const std::string path = folder_ + "/" + PackName(next);
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(env_->Open(path, OpenMode::kCreate, &file));
  if (Status status = file->WriteAt(0, header, sizeof header); !status.ok()) {
    (void)env_->Remove(path);
    return status;
  }
  file_ = std::move(file);
  unsynced_.push_back(file_);
  folder_unsynced_ = true;
  pack_ = next;
  flushed_ = kPackHeaderSize;
  return {};
}

}  // namespace satchel
