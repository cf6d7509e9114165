// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Chunks: by whom what was put is written, and who makes it durable. See chunks.h.
#include <system_error>
#include <utility>
#include <vector>

#include "chunkstore/core/os/workers.h"
#include "chunkstore/core/packs/chunks.h"

namespace satchel {
namespace {

// Bytes that wait to be written before whoever brings more waits too.
constexpr size_t kMostQueued = size_t{8} << 20;

}  // namespace

Status Chunks::Write() {
  {
    const MutexLock lock(&mutex_);
    for (;;) {
      SATCHEL_RETURN_IF_ERROR(WriteQueued(0));
      if (writer_.queued() <= kMostQueued) break;
      written_.Wait(&mutex_);
    }
    if (pending_.size() < options_.max_pending) return {};
    (void)BeginSync();
    if (pending_.size() < 2 * options_.max_pending) return {};
  }
  return Sync();
}

void Chunks::BeginWriteBehind() {
  const MutexLock lock(&mutex_);
  (void)TakeFailed();
  ++round_;
}

Status Chunks::WriteBehind() {
  bool threads = !Workers::inlined();
  {
    const MutexLock lock(&mutex_);
    SATCHEL_RETURN_IF_ERROR(TellFailed());
    if (threads && writer_.IsWorthAWrite()) {
      for (std::thread& writer : writers_) {
        threads = threads && StartThread(&writer, &Chunks::WriteInBackground);
      }
    }
    if (pending_.size() >= options_.max_pending) threads = threads && BeginSync();
    const auto too_much = [this]() REQUIRES(mutex_) {
      return writer_.queued() > kMostQueued || pending_.size() >= 2 * options_.max_pending;
    };
    while (threads && !stopping_ && broken_.ok() && failed_.ok() && too_much()) {
      written_.Wait(&mutex_);
    }
    if (threads) return broken_.ok() ? TellFailed() : broken_;
  }
  return Write();
}

double Chunks::Waiting() {
  const MutexLock lock(&mutex_);
  return static_cast<double>(writer_.queued()) / kMostQueued;
}

bool Chunks::SyncIsLate() {
  const MutexLock lock(&mutex_);
  return syncing_.size() > 0 && pending_.size() >= options_.max_pending / 2;
}

Status Chunks::TellFailed() {
  told_ = !failed_.ok();
  return failed_;
}

// The error, if nobody was told it yet. The threads that rest for it go on.
Status Chunks::TakeFailed() {
  wake_.NotifyAll();
  const Status failed = std::exchange(failed_, Status());
  return std::exchange(told_, false) ? Status() : failed;
}

// Writes what nobody else is writing: all before `number`, and what is worth a write. Gives the
// mutex up meanwhile.
Status Chunks::WriteQueued(uint64_t number) {
  for (PackWrite write; writer_.Take(number, &write);) {
    SATCHEL_RETURN_IF_ERROR(RunWrite(&write, /*behind=*/false));
  }
  return {};
}

// Gives the mutex up meanwhile.
Status Chunks::RunWrite(PackWrite* write, bool behind) {
  mutex_.Unlock();
  Status status = write->Run();
  if (behind && status.ok()) write->AwaitDisk();
  mutex_.Lock();
  writer_.Done(write, status.ok());
  written_.NotifyAll();
  return status;
}

// Gives the mutex up meanwhile. A piece that somebody else fails to write is tried again here.
Status Chunks::WriteAllBefore(uint64_t number) {
  for (;;) {
    SATCHEL_RETURN_IF_ERROR(WriteQueued(number));
    if (!writer_.HasQueuedBefore(number)) return {};
    written_.Wait(&mutex_);
  }
}

// false if there is none to do it: whoever puts has to.
bool Chunks::BeginSync() { return StartThread(&syncer_, &Chunks::SyncInBackground); }

// Wakes it up where it runs already. false if it cannot run.
bool Chunks::StartThread(std::thread* thread, void (Chunks::*body)()) {
  if (stopping_) return false;
  if (!thread->joinable()) {
    try {
      *thread = std::thread([this, body] { (this->*body)(); });
    } catch (const std::system_error&) {
      return false;
    }
  }
  wake_.NotifyAll();
  return true;
}

// An error stays in `broken_` or `failed_` for the next that puts or syncs.
void Chunks::SyncInBackground() {
  const MutexLock lock(&mutex_);
  for (;;) {
    while (!stopping_ && (!failed_.ok() || pending_.size() < options_.max_pending)) {
      wake_.Wait(&mutex_);
    }
    if (stopping_ || !broken_.ok()) return;
    mutex_.Unlock();
    (void)SyncNow(/*behind=*/true);
    mutex_.Lock();
    written_.NotifyAll();
  }
}

// Takes what is worth a write, as long as there is such. What failed stays in the queue.
void Chunks::WriteInBackground() {
  const MutexLock lock(&mutex_);
  while (!stopping_) {
    PackWrite write;
    if (!failed_.ok() || !writer_.Take(0, &write)) {
      wake_.Wait(&mutex_);
      continue;
    }
    const uint64_t round = round_;
    Fail(RunWrite(&write, /*behind=*/true), round);
  }
}

// Notes the error of a thread, unless an import began since: it has the write tried again.
void Chunks::Fail(const Status& status, uint64_t round) {
  if (failed_.ok() && round == round_) failed_ = status;
}

Status Chunks::Flush() {
  const MutexLock lock(&mutex_);
  return WriteAllBefore(writer_.next_number());
}

// What a thread could not write is an error also if it went well when it was tried again here.
Status Chunks::Sync() {
  Status status = SyncNow(/*behind=*/false);
  const MutexLock lock(&mutex_);
  if (status.ok()) return TakeFailed();
  Fail(status, round_);  // so that a write that is under way has nothing more to tell
  (void)TellFailed();
  return status;
}

// Only a Sync changes `syncing_`; others look things up in it meanwhile. A Sync behind notes its
// error before the next Sync can begin, which would otherwise end well and leave the error.
Status Chunks::SyncNow(bool behind) {
  const MutexLock one_at_a_time(&sync_mutex_);
  const MutexLock lock(&mutex_);
  SATCHEL_RETURN_IF_ERROR(broken_);
  const uint64_t round = round_;
  std::swap(pending_, syncing_);
  written_.NotifyAll();
  const PackPosition end = writer_.end();
  if (Status status = WriteAllBefore(writer_.next_number()); !status.ok()) {
    TakeBack();
    if (behind) Fail(status, round);
    return status;
  }
  const PendingSync pending = writer_.TakeUnsynced();
  if (pending.parts.empty() && syncing_.size() == 0) return {};
  const std::vector<Index::Entry>& entries = syncing_.entries();
  const std::vector<ChunkRef> left = LeftFrames(entries);
  mutex_.Unlock();
  Status status = pending.Run(env_);
  if (status.ok()) status = index_->Write(entries, left, end);
  mutex_.Lock();
  if (status.ok()) {
    if (table_loaded_) {
      for (const auto& entry : entries) table_.Add(entry.ref, entry.value);
    }
    syncing_.Clear();
  } else {
    broken_ = Status::Make(status.kind(), "the store takes no more writes until it is reopened",
                           status.ToString());
  }
  return status;
}

// What was to be synced waits again.
void Chunks::TakeBack() {
  for (const auto& entry : syncing_.entries()) pending_.Insert(entry.ref, entry.value);
  syncing_.Clear();
}

Status Chunks::EndPack() {
  SATCHEL_RETURN_IF_ERROR(Sync());
  const MutexLock lock(&mutex_);
  writer_.Roll();
  return {};
}

void Chunks::Stop() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    wake_.NotifyAll();
    written_.NotifyAll();
    threads.push_back(std::move(syncer_));
    for (std::thread& writer : writers_) threads.push_back(std::move(writer));
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace satchel
