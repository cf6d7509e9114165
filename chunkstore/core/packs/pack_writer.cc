// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/packs/pack_writer.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace satchel {
namespace {

constexpr size_t kPage = File::kUncachedAlign;

// Bytes that are worth a write, at most; of a small pack it is a part. A write of this size takes a
// disk about a millisecond; larger ones were no faster (docs/results.md).
constexpr uint64_t kWorth = uint64_t{1} << 20;
constexpr uint64_t kWorthOfPack = 4;

// Bytes that the system may be behind with what goes through the page cache.
constexpr uint64_t kInFlight = uint64_t{4} << 20;

constexpr size_t kSpare = 4;  // strings

}  // namespace

Status PendingSync::Run(Env* env) const {
  for (const Part& part : parts) {
    SATCHEL_RETURN_IF_ERROR(part.file->Sync());
    for (const Range& range : part.bulk) {
      part.file->DropCached(range.begin, range.end - range.begin);
    }
  }
  return folder.empty() ? Status() : env->SyncDir(folder);
}

// Bulk is copied to where it lies in its page of memory as it will in that of the file.
Status PackWrite::Run() {
  const QueuedPiece& first = *pieces.front();
  if (!first.bulk) return first.file->WriteAt(first.offset, first.bytes.data(), size);
  const size_t skew = first.offset % kPage;
  char* to = aligned.data() + skew;
  for (const auto& piece : pieces) {
    std::memcpy(to, piece->bytes.data(), piece->bytes.size());
    to += piece->bytes.size();
  }
  return first.file->WriteUncached(first.offset, aligned.data() + skew, size);
}

void PackWrite::AwaitDisk() const {
  const QueuedPiece& first = *pieces.front();
  if (!first.bulk) first.file->StartWriting(first.offset, size, kInFlight);
}

PackWriter::PackWriter(Env* env, std::string folder, PackPosition end, uint64_t limit)
    : env_(env),
      folder_(std::move(folder)),
      limit_(limit),
      worth_(std::min(kWorth, limit / kWorthOfPack)),
      pack_(end.pack),
      end_(end.offset) {}

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
  queued_ += bytes.size();
  queue_.push_back(QueuedPiece{file_, pack_, first.offset, std::move(bytes), next_number_++, bulk});
}

bool PackWriter::Take(uint64_t before, PackWrite* write) {
  const auto end = queue_.end();
  const auto first =
      std::find_if(queue_.begin(), end, [](const auto& each) { return !each.taken; });
  if (first == end) return false;
  write->pieces = {first};
  write->size = first->bytes.size();
  auto next = std::next(first);
  for (; next != end && !next->taken && next->Continues(*std::prev(next)); ++next) {
    if (write->size + next->bytes.size() > 2 * worth_) break;
    write->pieces.push_back(next);
    write->size += next->bytes.size();
  }
  const bool closed = next != end && !next->Continues(*std::prev(next));
  if (first->bulk && first->number >= before && write->size < worth_ && next == end) return false;
  if (first->bulk && write->pieces.back()->number >= before && !closed) LeavePartOfPage(write);
  if (first->bulk && !aligned_.empty()) {
    write->aligned = std::move(aligned_.back());
    aligned_.pop_back();
  }
  const size_t room = kPage + std::max(2 * worth_, write->size);
  if (first->bulk && write->aligned.size() < room) write->aligned = PageArray<char>(room);
  for (const auto& piece : write->pieces) piece->taken = true;
  return true;
}

// The end of the last piece that does not fill a page becomes a piece of its own.
void PackWriter::LeavePartOfPage(PackWrite* write) {
  const auto last = write->pieces.back();
  const size_t rest = last->end() % kPage;
  if (rest == 0 || rest >= last->bytes.size()) return;
  const size_t kept = last->bytes.size() - rest;
  queue_.insert(std::next(last), QueuedPiece{last->file, last->pack, last->offset + kept,
                                             last->bytes.substr(kept), last->number, true});
  last->bytes.resize(kept);
  write->size -= rest;
}

void PackWriter::Done(PackWrite* write, bool written) {
  if (write->aligned.size() > 0) aligned_.push_back(std::move(write->aligned));
  for (const auto& piece : write->pieces) {
    piece->taken = false;
    if (!written) continue;
    PendingSync::Part* const part = MarkUnsynced(piece->file);
    if (piece->bulk && !part->bulk.empty() && part->bulk.back().end == piece->offset) {
      part->bulk.back().end = piece->end();
    } else if (piece->bulk) {
      part->bulk.push_back({piece->offset, piece->end()});
    }
    queued_ -= piece->bytes.size();
    KeepSpare(std::move(piece->bytes));
    queue_.erase(piece);
  }
  if (!queue_.empty()) return;
  aligned_.clear();
  spare_.clear();
}

void PackWriter::KeepSpare(std::string bytes) {
  const bool large = bytes.capacity() >= worth_ / 2;
  if (large && spare_.size() < kSpare) spare_.push_back(std::move(bytes));
}

std::string PackWriter::TakeSpare() {
  if (spare_.empty()) return {};
  std::string spare = std::move(spare_.back());
  spare_.pop_back();
  spare.clear();
  return spare;
}

bool PackWriter::HasQueuedBefore(uint64_t number) const {
  return !queue_.empty() && queue_.front().number < number;
}

bool PackWriter::IsQueued(const Location& at) const {
  return std::any_of(queue_.begin(), queue_.end(), [&](const QueuedPiece& piece) {
    return piece.pack == at.pack && at.offset < piece.end() &&
           piece.offset < uint64_t{at.offset} + at.size();
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
