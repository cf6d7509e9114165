// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/pack_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace satchel {

Status PendingSync::Run(Env* env) const {
  for (const Part& part : parts) {
    SATCHEL_RETURN_IF_ERROR(part.file->Sync());
    for (const Range& range : part.bulk) {
      part.file->DropCached(range.begin, range.end - range.begin);
    }
  }
  return folder.empty() ? Status() : env->SyncDir(folder);
}

PackWriter::PackWriter(Env* env, std::string folder, PackPosition end, uint64_t limit)
    : env_(env), folder_(std::move(folder)), limit_(limit), pack_(end.pack), end_(end.offset) {}

Status PackWriter::Place(uint32_t size, Location* at) {
  if (!Fits(size)) {
    SATCHEL_RETURN_IF_ERROR(StartPack());
  } else if (file_ == nullptr) {
    SATCHEL_RETURN_IF_ERROR(OpenCurrent());
  }
  *at =
      Location{pack_, static_cast<uint32_t>(end_), static_cast<uint16_t>(size - kRecordHeaderSize)};
  end_ += size;
  return {};
}

void PackWriter::Queue(std::string bytes, const Location& first, bool bulk) {
  queue_.push_back(PackWrite{file_, pack_, first.offset, std::move(bytes), next_number_++, bulk});
}

PackWrite* PackWriter::Take() {
  for (PackWrite& write : queue_) {
    if (write.taken) continue;
    write.taken = true;
    return &write;
  }
  return nullptr;
}

void PackWriter::Done(PackWrite* write, bool written) {
  write->taken = false;
  if (!written) return;
  PendingSync::Part* const part = MarkUnsynced(write->file);
  if (write->bulk) {
    const uint64_t end = write->offset + write->bytes.size();
    if (!part->bulk.empty() && part->bulk.back().end == write->offset) {
      part->bulk.back().end = end;
    } else {
      part->bulk.push_back({write->offset, end});
    }
  }
  const auto is_it = [write](const PackWrite& other) { return &other == write; };
  queue_.erase(std::find_if(queue_.begin(), queue_.end(), is_it));
}

bool PackWriter::HasQueuedBefore(uint64_t number) const {
  return !queue_.empty() && queue_.front().number < number;
}

bool PackWriter::IsQueued(const Location& at) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const PackWrite& write) {
    return write.pack == at.pack && at.offset >= write.offset &&
           at.offset < write.offset + write.bytes.size();
  });
}

PendingSync PackWriter::TakeUnsynced() {
  PendingSync pending;
  pending.parts = std::exchange(unsynced_, {});
  pending.folder = std::exchange(folder_unsynced_, false) ? folder_ : std::string();
  return pending;
}

void PackWriter::Roll() {
  end_ = limit_;
  file_.reset();
}

PendingSync::Part* PackWriter::MarkUnsynced(const std::shared_ptr<File>& file) {
  for (PendingSync::Part& part : unsynced_) {
    if (part.file == file) return &part;
  }
  unsynced_.push_back(PendingSync::Part{file, {}});
  return &unsynced_.back();
}

Status PackWriter::OpenCurrent() {
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
  (void)MarkUnsynced(file_);
  folder_unsynced_ = true;
  pack_ = next;
  end_ = kPackHeaderSize;
  return {};
}

}  // namespace satchel
