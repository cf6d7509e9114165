// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Which blocks of an open file a session may read and write without asking Python, and in which
// file they are. No Python in here.
//
// A block of 4096 bytes has a word: flags, how many writes were answered, how many may be. Words
// are in chunks of 512, made when the first of them is granted something or, of a whole file,
// written.
//
// Nothing is answered from the end of the rights on (`Until`): each answer compares it with the
// clock, so nobody has to be there to take them away in time.
//
// Taking a right away has to wait for answers that looked at it before. Each answer is a Pass: it
// counts itself in one of two counters, the one of the present epoch. Who revokes clears the flags
// first, begins a new epoch, and waits until the counter of the old one is 0: what came later has
// seen the cleared flags. So answers share no lock, and those that keep coming delay nobody. (This
// is what the Linux kernel calls SRCU.)
#ifndef SATCHEL_SHARES_FUSE_WINDOW_H_
#define SATCHEL_SHARES_FUSE_WINDOW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "chunkstore/core/os/mutex.h"

namespace satchel {

class Window {
 public:
  static constexpr uint64_t kBlockSize = 4096;
  static constexpr uint64_t kMaxBlocks = uint64_t{1} << 33;
  static constexpr uint64_t kMaxWhole = uint64_t{1} << 28;  // 1 TiB: words of a whole file
  static constexpr uint64_t kUnlimited = (uint64_t{1} << 28) - 1;
  static constexpr uint64_t kNoEnd = ~uint64_t{0};
  static constexpr int64_t kMany = int64_t{1} << 60;

  static constexpr uint64_t kRead = 1;
  static constexpr uint64_t kWrite = 2;
  static constexpr uint64_t kDirty = 4;  // written through the window
  static constexpr uint64_t kUsed = 8;   // read or written through the window

  using Run = std::pair<uint64_t, uint64_t>;  // first block, how many

  // Of the file with marks (docs/formats/mount-journal.md): where the size that writes made is, and
  // the generations, 8 bytes for each block, that of block -1 first.
  static constexpr uint64_t kMarkedSize = 24;
  static constexpr uint64_t kMarks = 128;

  // Owns `fd`. `size` is the file's, in bytes. Nothing may be read or written yet.
  Window(int fd, uint64_t size);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  int fd() const { return fd_; }
  uint64_t size() const { return size_.load(); }
  uint64_t modified() const { return modified_.load(); }  // nanoseconds since 1970; 0: never
  uint64_t TakeModified() { return modified_.exchange(0); }
  // Whether something was written since this was asked last.
  bool TakeWritten() { return written_.exchange(false); }
  bool written() const { return written_.load(); }
  bool exact() const { return exact_.load(); }
  // Whether the kernel was given pages to keep, since TakePaged.
  bool paged() const { return paged_.load(); }
  bool TakePaged() { return paged_.exchange(false); }
  uint64_t reads() const { return reads_.load(); }
  uint64_t writes() const { return writes_.load(); }

  // False if a block is at or beyond kMaxBlocks. Grants add to what there is; a grant of writes
  // begins to count them anew, except of blocks that may be written already: these stay as they
  // are.
  bool Grant(uint64_t first, uint64_t count, bool read, uint64_t writes) EXCLUDES(mutex_);
  // The whole file, as long as it may get: what words allow is not looked at.
  void GrantWhole(bool write);
  // Rights end at this time of CLOCK_BOOTTIME, in nanoseconds: the clock goes on while the machine
  // sleeps, as those of other machines do.
  void Until(uint64_t end) { end_ = end; }
  // Writes until the next one is asked, and blocks that may become dirty until then.
  void Allow(int64_t writes, int64_t fresh);
  bool whole() const { return whole_.load() != 0; }

  // All three return when no answer that began before is under way.
  void Revoke(uint64_t first, uint64_t count, bool read) EXCLUDES(mutex_, waiting_);
  void RevokeAll(bool read) EXCLUDES(mutex_, waiting_);  // the whole file and every block
  void Resize(uint64_t size) EXCLUDES(mutex_, waiting_, marking_);
  // The file may be longer than `size` meanwhile: reads that reach beyond it are asked, until the
  // next Resize.
  void Unsure() EXCLUDES(mutex_, waiting_);

  // Owns `fd`: from now on each write notes in that file which blocks it was about, with the
  // generation of the moment. Before the first write is granted.
  void MarkIn(int fd) EXCLUDES(marking_);
  // Who is about to read content for home begins a new one: what is marked with an older one was
  // written before.
  void Generation(uint64_t generation) { generation_ = generation; }

  // Counted since the last grant or reset.
  std::vector<uint64_t> Counts(uint64_t first, uint64_t count, bool reset) EXCLUDES(mutex_);
  // Blocks that have the flag, which they lose.
  std::vector<Run> Take(uint64_t flag) EXCLUDES(mutex_);

  // An answer under way. Must not wait for anything that waits for a revocation.
  class Pass {
   public:
    explicit Pass(Window* window) : window_(window), epoch_(window->Enter()) {}
    ~Pass() { window_->Leave(epoch_); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    // Whether *size bytes at `offset` may be read; *size becomes less at the end of the file.
    bool MayRead(uint64_t offset, size_t* size);
    // The kernel is going to keep what is read.
    void Page() { window_->paged_ = true; }
    // Whether they may be written; they are counted then. Wrote, or nothing if that failed, comes
    // next. append: at the end of the file, which is where the kernel takes it to be.
    bool MayWrite(uint64_t offset, size_t size, bool append);
    // The same of a page of a mapping, which never makes a file longer.
    bool MayWritePage(uint64_t offset, size_t size);
    void Wrote(uint64_t offset, size_t size);
    // After the bytes and before Wrote: what was written is found again when this process is
    // killed. 0 or an errno.
    int Note(uint64_t offset, size_t size) { return window_->NoteMarks(offset, size); }

   private:
    bool MayGrow(uint64_t offset, size_t size, bool append);

    Window* const window_;
    const unsigned epoch_;
  };

 private:
  static constexpr uint64_t kChunk = 512;
  struct Chunk {
    std::atomic<uint64_t> words[kChunk] = {};
    std::atomic<uint64_t> flags{0};  // kDirty, kUsed: of which some of the words may have it
  };
  struct Table {
    explicit Table(size_t n) : chunks(n) {}
    std::vector<std::atomic<Chunk*>> chunks;
  };

  unsigned Enter();
  void Leave(unsigned epoch);
  void WaitForAnswers() EXCLUDES(waiting_);
  bool Ended() const;
  static Chunk* ChunkOf(const Table* table, uint64_t block);
  static std::atomic<uint64_t>* Word(const Table* table, uint64_t block);
  static void Mark(const Table* table, uint64_t block, uint64_t flags);
  bool MakeWords(uint64_t first, uint64_t count) EXCLUDES(mutex_);
  bool CountFresh(uint64_t first, uint64_t count);
  static bool CountWrite(std::atomic<uint64_t>* word);
  static void UncountWrite(std::atomic<uint64_t>* word);
  bool Prepare(uint64_t first, uint64_t count) REQUIRES(mutex_);
  int NoteMarks(uint64_t offset, uint64_t size) EXCLUDES(marking_);
  template <typename Act>
  void ForEach(uint64_t first, uint64_t count, const Act& act) REQUIRES(mutex_);

  const int fd_;
  std::atomic<uint64_t> size_;
  std::atomic<uint64_t> whole_{0};  // kRead, kWrite
  std::atomic<bool> exact_{true};   // the file ends at size_
  std::atomic<uint64_t> end_{kNoEnd};
  std::atomic<int64_t> writes_left_{kMany};
  std::atomic<int64_t> fresh_left_{kMany};
  std::atomic<bool> written_{false};
  std::atomic<bool> paged_{false};
  std::atomic<uint64_t> modified_{0};
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> writes_{0};

  std::atomic<uint64_t> generation_{1};
  Mutex marking_;  // so that marks never become older
  int marks_fd_ GUARDED_BY(marking_) = -1;
  uint64_t marked_size_ GUARDED_BY(marking_) = 0;

  Mutex mutex_;  // who changes rights; answers never take it
  std::atomic<Table*> table_;
  std::vector<std::unique_ptr<Chunk>> chunks_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Table>> old_ GUARDED_BY(mutex_);  // answers may still look at them

  std::atomic<uint64_t> epoch_{0};
  std::atomic<uint64_t> active_[2] = {};
  std::atomic<bool> waiter_{false};
  Mutex waiting_;  // one revocation waits at a time
  Mutex idle_;
  CondVar none_active_;
};

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_WINDOW_H_
