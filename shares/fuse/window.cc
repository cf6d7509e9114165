// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/window.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace satchel {
namespace {

// A word: flags, bits 8 to 35 the count, bits 36 to 63 the limit.
constexpr uint64_t kOne = uint64_t{1} << 8;
constexpr uint64_t kMask = Window::kUnlimited;

uint64_t CountOf(uint64_t word) { return word >> 8 & kMask; }
uint64_t LimitOf(uint64_t word) { return word >> 36; }

uint64_t Now() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t BootTime() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// The block after the last of a range; offsets are those of off_t, so nothing wraps.
uint64_t EndBlock(uint64_t offset, uint64_t size) {
  return (offset + size + Window::kBlockSize - 1) / Window::kBlockSize;
}

bool IsRange(uint64_t offset, uint64_t size) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return size <= kMost && offset <= kMost - size;
}

// 0 or an errno.
int WriteAll(int fd, const void* data, size_t size, uint64_t offset) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(fd, from, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    from += written;
    offset += static_cast<uint64_t>(written);
    size -= static_cast<size_t>(written);
  }
  return 0;
}

}  // namespace

Window::Window(int fd, uint64_t size) : fd_(fd), size_(size), table_(nullptr) {}

Window::~Window() {
  delete table_.load();
  close(fd_);
  const MutexLock lock(&marking_);
  if (marks_fd_ >= 0) close(marks_fd_);
}

void Window::MarkIn(int fd) {
  const MutexLock lock(&marking_);
  if (marks_fd_ >= 0) close(marks_fd_);
  marks_fd_ = fd;
  marked_size_ = size_.load();
}

// The generation is taken with the lock, so of two writes to a block the later one is not marked
// with the older generation.
int Window::NoteMarks(uint64_t offset, uint64_t size) {
  constexpr size_t kAtOnce = 512;
  const MutexLock lock(&marking_);
  if (marks_fd_ < 0) return 0;
  const uint64_t generation = generation_.load();
  uint64_t marks[kAtOnce];
  std::fill(std::begin(marks), std::end(marks), generation);
  uint64_t block = offset / kBlockSize;
  for (const uint64_t last = EndBlock(offset, size); block < last;) {
    const uint64_t count = std::min<uint64_t>(last - block, kAtOnce);
    const int error = WriteAll(marks_fd_, marks, count * 8, kMarks + (block + 1) * 8);
    if (error != 0) return error;
    block += count;
  }
  const uint64_t end = offset + size;
  if (end <= marked_size_) return 0;
  const int error = WriteAll(marks_fd_, &end, 8, kMarkedSize);
  if (error == 0) marked_size_ = end;
  return error;
}

Window::Chunk* Window::ChunkOf(const Table* table, uint64_t block) {
  if (table == nullptr || block / kChunk >= table->chunks.size()) return nullptr;
  return table->chunks[block / kChunk].load();
}

std::atomic<uint64_t>* Window::Word(const Table* table, uint64_t block) {
  Chunk* const chunk = ChunkOf(table, block);
  return chunk == nullptr ? nullptr : &chunk->words[block % kChunk];
}

// The word first: who takes flags clears the chunk's before it looks at words.
void Window::Mark(const Table* table, uint64_t block, uint64_t flags) {
  Chunk* const chunk = ChunkOf(table, block);
  if (chunk == nullptr) return;
  std::atomic<uint64_t>* const word = &chunk->words[block % kChunk];
  if ((word->load() & flags) != flags) word->fetch_or(flags);
  if ((chunk->flags.load() & flags) != flags) chunk->flags.fetch_or(flags);
}

bool Window::Ended() const {
  const uint64_t end = end_.load();
  return end != kNoEnd && BootTime() >= end;
}

// Afterwards each of the blocks has a word.
bool Window::Prepare(uint64_t first, uint64_t count) {
  if (first > kMaxBlocks || count > kMaxBlocks - first) return false;
  const uint64_t needed = (first + count + kChunk - 1) / kChunk;
  Table* table = table_.load();
  const uint64_t have = table == nullptr ? 0 : table->chunks.size();
  if (needed > have) {
    auto larger = std::make_unique<Table>(std::max(needed, have * 2));
    for (uint64_t i = 0; i < have; ++i) larger->chunks[i] = table->chunks[i].load();
    if (table != nullptr) old_.emplace_back(table);
    table = larger.release();
    table_ = table;
  }
  for (uint64_t i = first / kChunk; i < needed; ++i) {
    if (table->chunks[i].load() != nullptr) continue;
    chunks_.push_back(std::make_unique<Chunk>());
    table->chunks[i] = chunks_.back().get();
  }
  return true;
}

template <typename Act>
void Window::ForEach(uint64_t first, uint64_t count, const Act& act) {
  const Table* const table = table_.load();
  const uint64_t blocks = table == nullptr ? 0 : table->chunks.size() * kChunk;
  const uint64_t end = first >= blocks ? first : first + std::min(count, blocks - first);
  for (uint64_t block = first; block < end;) {
    if (Word(table, block) == nullptr) {
      block = (block / kChunk + 1) * kChunk;
      continue;
    }
    act(block, Word(table, block));
    ++block;
  }
}

bool Window::Grant(uint64_t first, uint64_t count, bool read, uint64_t writes) {
  const MutexLock lock(&mutex_);
  if (count == 0) return true;
  if (!Prepare(first, count)) return false;
  const uint64_t limit = std::min(writes, kUnlimited);
  ForEach(first, count, [&](uint64_t, std::atomic<uint64_t>* word) {
    uint64_t old = word->load();
    uint64_t wanted;
    do {
      wanted = old | (read ? kRead : 0);
      if (limit > 0 && (old & kWrite) == 0) {
        wanted = (wanted & (kRead | kDirty | kUsed)) | kWrite | limit << 36;
      }
    } while (!word->compare_exchange_weak(old, wanted));
  });
  return true;
}

void Window::GrantWhole(bool write) { whole_ = kRead | (write ? kWrite : 0); }

void Window::Allow(int64_t writes, int64_t fresh) {
  writes_left_ = std::min(writes, kMany);
  fresh_left_ = std::min(fresh, kMany);
}

// For who answers: words of blocks that nothing was granted of.
bool Window::MakeWords(uint64_t first, uint64_t count) {
  const Table* const table = table_.load();
  bool lacking = false;
  for (uint64_t block = first; block < first + count; block = (block / kChunk + 1) * kChunk) {
    lacking = lacking || ChunkOf(table, block) == nullptr;
  }
  if (!lacking) return true;
  const MutexLock lock(&mutex_);
  return Prepare(first, count);
}

// Whether as many blocks may become dirty.
bool Window::CountFresh(uint64_t first, uint64_t count) {
  const Table* const table = table_.load();
  int64_t fresh = 0;
  for (uint64_t block = first; block < first + count; ++block) {
    const std::atomic<uint64_t>* const word = Word(table, block);
    fresh += word == nullptr || (word->load() & kDirty) == 0 ? 1 : 0;
  }
  if (fresh == 0) return true;
  if (fresh_left_.fetch_sub(fresh) >= fresh) return true;
  fresh_left_.fetch_add(fresh);
  return false;
}

void Window::Revoke(uint64_t first, uint64_t count, bool read) {
  {
    const MutexLock lock(&mutex_);
    const uint64_t lost = kWrite | (read ? kRead : 0);
    ForEach(first, count, [&](uint64_t, std::atomic<uint64_t>* word) {
      if ((word->load() & lost) != 0) word->fetch_and(~lost);
    });
  }
  WaitForAnswers();
}

void Window::RevokeAll(bool read) {
  whole_.fetch_and(read ? 0 : ~kWrite);
  std::vector<std::unique_ptr<Table>> old;  // nobody looks at them after the wait
  {
    const MutexLock lock(&mutex_);
    old.swap(old_);
  }
  Revoke(0, kMaxBlocks, read);
}

void Window::Resize(uint64_t size) {
  {
    const MutexLock lock(&marking_);
    marked_size_ = size;
  }
  size_ = size;
  exact_ = true;
  WaitForAnswers();
}

void Window::Unsure() {
  exact_ = false;
  WaitForAnswers();
}

std::vector<uint64_t> Window::Counts(uint64_t first, uint64_t count, bool reset) {
  const MutexLock lock(&mutex_);
  std::vector<uint64_t> counts(std::min(count, kMaxBlocks));
  ForEach(first, counts.size(), [&](uint64_t block, std::atomic<uint64_t>* word) {
    const uint64_t old = reset ? word->fetch_and(~(kMask << 8)) : word->load();
    counts[block - first] = CountOf(old);
  });
  return counts;
}

std::vector<Window::Run> Window::Take(uint64_t flag) {
  const MutexLock lock(&mutex_);
  std::vector<Run> runs;
  const Table* const table = table_.load();
  const uint64_t chunks = table == nullptr ? 0 : table->chunks.size();
  for (uint64_t i = 0; i < chunks; ++i) {
    Chunk* const chunk = table->chunks[i].load();
    if (chunk == nullptr || (chunk->flags.load() & flag) == 0) continue;
    chunk->flags.fetch_and(~flag);
    ForEach(i * kChunk, kChunk, [&](uint64_t block, std::atomic<uint64_t>* word) {
      if ((word->load() & flag) == 0) return;
      word->fetch_and(~flag);
      if (!runs.empty() && runs.back().first + runs.back().second == block) {
        ++runs.back().second;
      } else {
        runs.emplace_back(block, 1);
      }
    });
  }
  return runs;
}

unsigned Window::Enter() {
  for (;;) {
    const uint64_t epoch = epoch_.load();
    const unsigned mine = epoch & 1;
    active_[mine].fetch_add(1);
    if (epoch_.load() == epoch) return mine;
    Leave(mine);
  }
}

void Window::Leave(unsigned epoch) {
  if (active_[epoch].fetch_sub(1) != 1 || !waiter_.load()) return;
  const MutexLock lock(&idle_);
  none_active_.NotifyAll();
}

void Window::WaitForAnswers() {
  const MutexLock alone(&waiting_);
  const unsigned old = epoch_.fetch_add(1) & 1;
  if (active_[old].load() == 0) return;
  const MutexLock lock(&idle_);
  waiter_ = true;
  while (active_[old].load() != 0) none_active_.Wait(&idle_);
  waiter_ = false;
}

bool Window::CountWrite(std::atomic<uint64_t>* word) {
  uint64_t old = word->load();
  do {
    if ((old & kWrite) == 0) return false;
    const bool unlimited = LimitOf(old) == kUnlimited;
    if (CountOf(old) >= LimitOf(old)) return unlimited;
  } while (!word->compare_exchange_weak(old, old + kOne));
  return true;
}

// A count that was reset meanwhile stays 0.
void Window::UncountWrite(std::atomic<uint64_t>* word) {
  uint64_t old = word->load();
  do {
    if (CountOf(old) == 0) return;
  } while (!word->compare_exchange_weak(old, old - kOne));
}

bool Window::Pass::MayRead(uint64_t offset, size_t* size) {
  if (!IsRange(offset, *size) || window_->Ended()) return false;
  if ((window_->whole_.load() & kRead) == 0) {
    const uint64_t end = window_->size_.load();
    if (offset + *size > end && !window_->exact_.load()) return false;
    *size = offset >= end ? 0 : std::min<uint64_t>(*size, end - offset);
    const Table* const table = window_->table_.load();
    const uint64_t last = EndBlock(offset, *size);
    for (uint64_t block = offset / kBlockSize; block < last; ++block) {
      std::atomic<uint64_t>* const word = Word(table, block);
      const uint64_t value = word == nullptr ? 0 : word->load();
      if ((value & kRead) == 0) return false;
      if ((value & kUsed) == 0) Mark(table, block, kUsed);
    }
  }
  window_->reads_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// The same where the whole file may be written. The kernel's idea of a file's end may be older than
// the grant.
bool Window::Pass::MayGrow(uint64_t offset, size_t size, bool append) {
  if (append && offset != window_->size_.load()) return false;
  const uint64_t first = offset / kBlockSize;
  const uint64_t last = EndBlock(offset, size);
  return last <= kMaxWhole && window_->MakeWords(first, last - first) &&
         window_->CountFresh(first, last - first);
}

bool Window::Pass::MayWrite(uint64_t offset, size_t size, bool append) {
  if (!IsRange(offset, size) || window_->Ended()) return false;
  if (window_->writes_left_.fetch_sub(1) <= 0) {
    window_->writes_left_.fetch_add(1);
    return false;
  }
  if ((window_->whole_.load() & kWrite) != 0) {
    if (!MayGrow(offset, size, append)) return false;
  } else {
    if (append || offset + size > window_->size_.load()) return false;
    const Table* const table = window_->table_.load();
    const uint64_t first = offset / kBlockSize;
    const uint64_t last = EndBlock(offset, size);
    if (!window_->CountFresh(first, last - first)) return false;
    for (uint64_t block = first; block < last; ++block) {
      std::atomic<uint64_t>* const word = Word(table, block);
      if (word != nullptr && CountWrite(word)) continue;
      while (block > first) UncountWrite(Word(table, --block));
      return false;
    }
  }
  window_->writes_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool Window::Pass::MayWritePage(uint64_t offset, size_t size) {
  return IsRange(offset, size) && offset + size <= window_->size_.load() &&
         MayWrite(offset, size, false);
}

void Window::Pass::Wrote(uint64_t offset, size_t size) {
  const Table* const table = window_->table_.load();
  const uint64_t last = EndBlock(offset, size);
  // After the bytes: who takes the flags and then reads has them all, or finds the flag again.
  for (uint64_t block = offset / kBlockSize; block < last; ++block) {
    Mark(table, block, kDirty | kUsed);
  }
  window_->modified_ = Now();
  uint64_t end = window_->size_.load();
  while (end < offset + size && !window_->size_.compare_exchange_weak(end, offset + size)) {
  }
  window_->written_ = true;  // the last of all: who takes this finds the rest
}

}  // namespace satchel
