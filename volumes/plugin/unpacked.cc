// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "volumes/plugin/unpacked.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "chunkstore/core/format/hash.h"

namespace satchel {
namespace {

constexpr uint64_t kSlotWords = 2 * sizeof(uint64_t);

static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t) &&
                  std::atomic<uint64_t>::is_always_lock_free,
              "what is mapped by several processes are plain words");

// Bytes of tags and checksums, up to where the blocks begin.
uint64_t WordBytes(uint64_t slots) {
  return (slots * kSlotWords + kBlockSize - 1) / kBlockSize * kBlockSize;
}

}  // namespace

Status Unpacked::Open(const std::string& path, std::unique_ptr<Unpacked>* unpacked) {
  std::unique_ptr<File> file;
  SATCHEL_RETURN_IF_ERROR(OpenLinked(path, OpenMode::kReadWrite, &file));
  uint64_t size = 0;
  SATCHEL_RETURN_IF_ERROR(file->Size(&size));
  const uint64_t slots = size < kBlockSize ? 0 : (size - kBlockSize) / (kSlotWords + kBlockSize);
  const uint64_t sets = slots / kWays;
  if (sets == 0) return Status::Make(Kind::kDamaged, "cannot use " + path, "it is too small");
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno("cannot open " + path, errno);
  const uint64_t bytes = WordBytes(sets * kWays);
  // A mapped page for which there is no space would be a SIGBUS.
  int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  void* base = MAP_FAILED;
  if (error == 0) {
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = errno;
  }
  close(fd);
  if (base == MAP_FAILED) return Status::FromErrno("cannot map " + path, error);
  unpacked->reset(new Unpacked(std::move(file), base, sets));
  return {};
}

Unpacked::Unpacked(std::unique_ptr<File> file, void* base, uint64_t sets)
    : file_(std::move(file)),
      base_(base),
      sets_(sets),
      blocks_at_(WordBytes(sets * kWays)),
      tags_(static_cast<std::atomic<uint64_t>*>(base)),
      checksums_(tags_ + sets * kWays) {}

Unpacked::~Unpacked() { munmap(base_, WordBytes(sets_ * kWays)); }

bool Unpacked::Find(const Location& at, uint8_t* block) {
  const uint64_t word = EncodeLocation(at);
  const uint64_t first = SetOf(word);
  for (uint64_t slot = first; slot < first + kWays; ++slot) {
    uint64_t tag = tags_[slot].load(std::memory_order_acquire);
    if ((tag & ~kRead) != word) continue;
    const uint64_t checksum = checksums_[slot].load(std::memory_order_relaxed);
    size_t got = 0;
    if (!file_->ReadAt(Offset(slot), kBlockSize, block, &got).ok() || got != kBlockSize) {
      return false;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if ((tags_[slot].load(std::memory_order_relaxed) & ~kRead) != word) return false;
    if (Checksum64(block, kBlockSize) != checksum) {
      tags_[slot].compare_exchange_strong(tag, 0, std::memory_order_relaxed);
      return false;
    }
    if ((tag & kRead) == 0) {
      tags_[slot].compare_exchange_strong(tag, tag | kRead, std::memory_order_relaxed);
    }
    return true;
  }
  return false;
}

void Unpacked::Keep(const Location& at, const uint8_t* block) {
  const uint64_t word = EncodeLocation(at);
  const uint64_t first = SetOf(word);
  uint64_t tag = 0;
  const uint64_t slot = SlotFor(first, &tag);
  if ((tag & kWriting) != 0) return;
  if (!tags_[slot].compare_exchange_strong(tag, kWriting, std::memory_order_acq_rel)) return;
  const bool written = file_->WriteAt(Offset(slot), block, kBlockSize).ok();
  checksums_[slot].store(Checksum64(block, kBlockSize), std::memory_order_relaxed);
  tags_[slot].store(written ? word : 0, std::memory_order_release);
}

// The slot of the set that goes, and its tag: an empty one, else the first that nobody has read;
// those that are looked at on the way there count as not read from then on. Each search begins
// elsewhere. Where others read or write all of them meanwhile, it is any.
uint64_t Unpacked::SlotFor(uint64_t first, uint64_t* tag) {
  for (uint64_t slot = first; slot < first + kWays; ++slot) {
    *tag = tags_[slot].load(std::memory_order_relaxed);
    if (*tag == 0) return slot;
  }
  thread_local uint64_t hand = 0;
  for (uint64_t looks = 0;; ++looks) {
    const uint64_t slot = first + ++hand % kWays;
    *tag = tags_[slot].load(std::memory_order_relaxed);
    if ((*tag & (kRead | kWriting)) == 0 || looks == 2 * kWays) return slot;
    if ((*tag & kRead) != 0) {
      tags_[slot].compare_exchange_strong(*tag, *tag & ~kRead, std::memory_order_relaxed);
    }
  }
}

uint64_t Unpacked::SetOf(uint64_t word) const {
  // Multiplicative hashing (Knuth, The Art of Computer Programming, 6.4): 2^64 divided by the
  // golden ratio spreads places that lie side by side.
  const uint64_t mixed = (word ^ (word >> 29)) * 0x9e3779b97f4a7c15u;
  return (mixed >> 20) % sets_ * kWays;
}

}  // namespace satchel
