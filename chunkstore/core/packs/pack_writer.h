// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The append end of a folder of packs. A record gets its place first and its bytes are written
// there afterwards, so that several threads write at once and none of them holds the store's mutex
// while it does:
//
//   Place   a record has its place
//   Queue   the bytes of records that have places wait to be written
//   Take    somebody has undertaken to write the oldest of the queue
//   Done    that is in the file, or waits again because it failed
//
// Much at once (an import, settling) waits until it is worth a write, and goes past the system's
// memory in whole pages. What is left of a page waits for what comes behind it, or for a Sync.
// Threads that do nothing else write it while others compute (chunks.h).
//
// So a pack may have a hole where a piece is not written yet, and keeps it if the process ends
// before that; nobody was ever told that those records are safe. A piece that could not be written
// stays in memory and is written to the same place by the next that takes it: no place is given to
// two records. Nothing is durable before a Sync (PendingSync).
//
// Not thread-safe: the store calls it under its mutex, PackWrite::Run and PendingSync::Run apart.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_WRITER_H_
#define SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_WRITER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/page_array.h"
#include "chunkstore/core/packs/pack_reader.h"

namespace satchel {

// What has to be synced for what was written to be durable.
struct PendingSync {
  struct Range {
    uint64_t begin;
    uint64_t end;
  };
  struct Part {
    std::shared_ptr<File> file;
    std::vector<Range> bulk;  // what of it the system need not keep in memory once it is durable
  };

  std::vector<Part> parts;
  std::string folder;  // to be synced too, unless empty

  Status Run(Env* env) const;
};

// Records that have their place and wait to be written there.
struct QueuedPiece {
  std::shared_ptr<File> file;
  uint32_t pack;
  uint64_t offset;
  std::string bytes;
  uint64_t number;     // counts up in the order of the places
  bool bulk;           // part of much, which is not read soon
  bool taken = false;  // somebody is writing it

  uint64_t end() const { return offset + bytes.size(); }

  // Whether the two can be written as one.
  bool Continues(const QueuedPiece& before) const {
    return bulk && before.bulk && file == before.file && offset == before.end();
  }
};

// What somebody writes: pieces of the queue, one behind the other in the file.
struct PackWrite {
  std::vector<std::list<QueuedPiece>::iterator> pieces;
  size_t size = 0;          // bytes
  PageArray<char> aligned;  // room for them, if they are bulk

  Status Run();

  // After Run, what went through the page cache: the system begins to write it, and is at most a
  // few MiB behind on return. So it shows when the disk is the slower. No other writes wait.
  void AwaitDisk() const;
};

class PackWriter {
 public:
  // Appends at `end`: pack 0 means that there is none yet. Records end by `limit` bytes.
  PackWriter(Env* env, std::string folder, PackPosition end, uint64_t limit);

  // Whether a record of `size` bytes goes into the pack that the one before it went to.
  bool Fits(uint64_t size) const { return pack_ != 0 && end_ + size <= limit_; }

  // Gives a record of `size` bytes the next place; in a new pack where it does not fit. After an
  // error no place is taken.
  Status Place(uint32_t size, Location* at);

  // Queues the bytes of the records that were placed last, the first of them at `first`: all of
  // one pack, one behind the other. `bulk`: they are part of much that is not read soon.
  void Queue(std::string bytes, const Location& first, bool bulk);

  // The oldest that nobody is writing. What is bulk and numbered from `before` on only as soon as
  // it is worth a write, in whole pages. false if there is none. It stays in the queue until Done.
  bool Take(uint64_t before, PackWrite* write);
  void Done(PackWrite* write, bool written);

  // Empty, with the room of bytes that were written, if there are such: memory that is new costs
  // the system more than what is done with it here.
  std::string TakeSpare();
  void KeepSpare(std::string bytes);

  // Bytes that are not written yet, and whether they are worth a write.
  size_t queued() const { return queued_; }
  bool IsWorthAWrite() const { return queued_ >= worth_; }

  // Whether a piece of the queue with a number below this one is not written yet.
  bool HasQueuedBefore(uint64_t number) const;
  bool IsQueued(const Location& at) const;
  uint64_t next_number() const { return next_number_; }

  // Hands over what was written and is not durable yet.
  PendingSync TakeUnsynced();

  // The next record begins a new pack.
  void Roll();

  PackPosition end() const { return {pack_, end_}; }

 private:
  Status OpenCurrent();
  Status StartPack();
  void LeavePartOfPage(PackWrite* write);
  PendingSync::Part* MarkUnsynced(const std::shared_ptr<File>& file);

  Env* const env_;
  const std::string folder_;
  const uint64_t limit_;
  const size_t worth_;  // bytes of bulk that are worth a write; twice that is most of many pieces
  uint32_t pack_;
  uint64_t end_;                          // of the current pack: where the next record goes
  std::shared_ptr<File> file_;            // the current pack, once it is open
  std::list<QueuedPiece> queue_;          // in the order of the places
  size_t queued_ = 0;                     // bytes
  std::vector<PageArray<char>> aligned_;  // of writes that are done, until all are
  std::vector<std::string> spare_;        // the same
  uint64_t next_number_ = 0;
  std::vector<PendingSync::Part> unsynced_;
  bool folder_unsynced_ = false;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_WRITER_H_
