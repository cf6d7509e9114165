// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The deduplicating set of chunks of a store: packs, the index, and what is between them.
//
// A chunk that is put is in one of three places until it is in the index:
//
//   pending_   has its place in a pack since the last Sync; its bytes may still have to be written
//   syncing_   a Sync is making it durable now
//   index_     durable; it got here after its pack was synced, never before
//
// Lookups go in that order, so that a chunk on its way is never overlooked. In front of the index
// stands a table of all places in memory, and a look at the record's header settles whether it is
// the chunk asked for. LevelDB itself is asked only where the two disagree, and for chunks in
// frames, which have no header.
//
// Appending gives places under the mutex and writes without it (pack_writer.h). A place that was
// looked up may therefore not be in the file yet: whoever reads here waits for it, and Flush waits
// for all of them.
//
// A thread makes things durable while others put more, as soon as max_pending chunks wait for that;
// at twice as many, whoever puts waits too. So an import's last sync has little left to do.
//
// Who puts much only queues it (WriteBehind), and two threads write it. Who computes waits while
// kMostQueued bytes do, or while the thread that syncs has not taken up what waits for it. So
// neither disk nor processors wait for the other before that. When one of these threads fails, all
// of them rest until the next import or Sync, which tries again: what could not be written stays in
// the queue. The error is told once: by an import that goes on, or else by that Sync. An import is
// told nothing of writes that were begun before it.
//
// When making things durable fails, nobody knows what is on disk (a second fsync after a failed
// one tells nothing), so from then on every write is refused with that error until the store is
// opened again and has looked.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACKS_CHUNKS_H_
#define SATCHEL_CHUNKSTORE_CORE_PACKS_CHUNKS_H_

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chunkstore/core/format/record_batch.h"
#include "chunkstore/core/format/ref_map.h"
#include "chunkstore/core/format/table.h"
#include "chunkstore/core/index/index.h"
#include "chunkstore/core/index/location_table.h"
#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/packs/bulk_reader.h"
#include "chunkstore/core/packs/pack_reader.h"
#include "chunkstore/core/packs/pack_writer.h"
#include "chunkstore/core/packs/page_cache.h"

namespace satchel {

// Of zstd, where content is stored compressed for lack of room or because the disk is slow.
constexpr int kFastLevel = 1;

struct ChunkOptions {
  int level = 1;                     // of zstd; 0: raw
  uint64_t pack_limit = kPackLimit;  // bytes of a pack
  size_t max_pending = 1 << 13;      // chunks not in the index yet before a Sync is begun
};

// Whether a status says that a chunk is lost: not whole, or gone with the pack it was in.
bool IsLost(const Status& status);

// Where a medium's records are copied from: a store, or somebody who asks one. Thread-safe.
class RecordSource {
 public:
  static constexpr int kSentLevel = 1;

  // level: of zstd, for what is not in a compressed record of its own here.
  struct Sending {
    int level = kSentLevel;
    BulkReader::CacheUse cache_use = BulkReader::CacheUse::kKeep;
  };

  virtual ~RecordSource() = default;

  // maybe[i] is false when refs[i] certainly is not here; costs no lookup.
  virtual Status MaybeHere(const ChunkRef* refs, size_t n, bool* maybe) = 0;

  // Appends the records of those that are here and whole, in order, as others get them.
  virtual Status Records(const ChunkRef* refs, size_t n, std::string* out,
                         const Sending& sending) = 0;
};

// Thread-safe. Destroying it loses what was not synced from the index, not from the packs.
class Chunks final : public PageSource, public RecordSource {
 public:
  // `end` is where appending goes on; everything before it is in the index. `env` outlives it.
  Chunks(Env* env, std::string packs, std::unique_ptr<Index> index, PackPosition end,
         const ChunkOptions& options);
  ~Chunks() override;

  // Names `n` blocks and stores those that are new. refs[i] is the zero reference for a zero block.
  Status Put(const uint8_t* blocks, size_t n, ChunkRef* refs);

  // 4096 bytes whose both hashes were checked. kMissing; kInvalid when the record went bad, after
  // which the chunk counts as missing, so that it can be fetched again.
  Status Get(const ChunkRef& ref, uint8_t* block);

  // The same for many chunks, into blocks one behind the other: read by `reader`, which reads these
  // packs, and hashed together.
  Status GetTogether(const ChunkRef* refs, size_t n, BulkReader* reader, uint8_t* blocks);

  // found[i] says whether refs[i] is here, and then at[i] where. The zero reference is not.
  Status Locate(const ChunkRef* refs, size_t n, Location* at, bool* found);

  Status MaybeHere(const ChunkRef* refs, size_t n, bool* maybe) override;

  Status Records(const ChunkRef* refs, size_t n, std::string* out, const Sending& sending) override;

  // Takes records from an untrusted source. Those before a bad one stay, and are in *admitted.
  Status Admit(const uint8_t* data, size_t n, std::vector<ChunkRef>* admitted);

  // Appends those that are not here yet: Reserve, then Write.
  Status Append(RecordBatch batch);

  // The two halves of it. Reserve gives places in the order of the calls; at[i] becomes that of
  // item i, which may be here already; *added, unless null, becomes what was not. Write writes what
  // was reserved, by anybody, and waits for a Sync where more is put than is made durable.
  struct Added {
    uint64_t chunks = 0;
    uint64_t bytes = 0;  // of records
  };
  Status Reserve(RecordBatch batch, std::vector<Location>* at, Added* added = nullptr);
  Status Write();

  // Instead of Write, for who puts much: has it written, and waits only as long as too much waits.
  // The error may be that of earlier puts. An import calls BeginWriteBehind first, once: failed
  // writes are tried again, and their error is forgotten.
  void BeginWriteBehind();
  Status WriteBehind();

  // How much of what may wait for the disk does, 0 to about 1, in the queue of what is written
  // behind.
  double Waiting();

  // Whether much was put since a Sync began that is not done: the disk is the slower.
  bool SyncIsLate();

  // Ends the threads that work behind, and gives none a new one.
  void Stop();

  // For the bytes of a batch: empty, with room if there was such a batch before.
  std::string TakeSpare() {
    const MutexLock lock(&mutex_);
    return writer_.TakeSpare();
  }

  // What has much more room than it needs takes no more while it waits; the rest is spare again.
  void Fit(std::string* bytes) {
    if (bytes->size() >= bytes->capacity() / 4 * 3) return;
    std::string fitting(*bytes);
    bytes->swap(fitting);
    const MutexLock lock(&mutex_);
    writer_.KeepSpare(std::move(fitting));
  }

  // Every chunk that was located can be read from its pack file by another process.
  Status Flush();

  // Chunks that were stored since this was last asked, while another with the same SHA-1 was here:
  // somebody has made them so. At most kMaxNamesakes of them.
  std::vector<ChunkRef> TakeNamesakes();
  static constexpr size_t kMaxNamesakes = 64;

  // Everything put so far is durable and in the index.
  Status Sync();

  // Ends the newest pack, so that prune may rewrite it too.
  Status EndPack();

  // Copies these chunks, which are in the order of their places, to the end of the packs and points
  // the index there. A frame of which little is among them is taken apart. `lost`: those that are
  // not whole, which the index still has. For prune: nothing else runs.
  Status Move(const std::vector<Index::Entry>& entries, std::vector<ChunkRef>* lost);

  // Appends a frame of which slot i is the chunk refs[i], or of no account if that is the zero
  // reference. These chunks are here already; from now on they are found there. *at is slot 0.
  Status AppendFrame(std::string frame, const ChunkRef* refs, unsigned count, Location* at);

  // Nothing leads to this pack any more. The index has nothing in it, and it is about to be
  // removed.
  void LeavePack(uint32_t pack);

  // Syncs, and takes chunks out of the index. For prune: nothing else runs.
  Status Erase(const std::vector<ChunkRef>& refs);

  // The same of chunks whose places are known, which is quicker: the table of places stays.
  Status EraseAt(const std::vector<Index::Entry>& entries);

  // A chunk whose record turned out bad is looked up no more.
  Status Forget(const ChunkRef& ref, const Location& at);

  Status GetPage(const ChunkRef& ref, unsigned level, std::shared_ptr<const Page>* page) override;

  // The same, and what is not cached here is read by `reader`, which reads these packs.
  Status GetPageBy(BulkReader* reader, const ChunkRef& ref, unsigned level,
                   std::shared_ptr<const Page>* page);

  Status StorePage(const Page& page, unsigned level, RecordBatch* batch, ChunkRef* ref);

  // The 4096 bytes at `at`, in whatever form they are there; only the checksum is checked.
  Status ReadBlock(const Location& at, uint8_t* block);

  // The same, and they are the chunk `ref`, which may be cut if it is in a frame: both hashes
  // agree. kDamaged, kInvalid or kNotFound when it is lost.
  Status ReadChunk(const ChunkRef& ref, const Location& at, uint8_t* block);

  // Which chunk is at `at`, whether or not the index has it there. Errors as ReadChunk.
  Status NameAt(const Location& at, ChunkRef* ref);

  // Appends the record of the chunk `ref`, which is at `at`, as others get it: never raw if it gets
  // shorter, because what carries it is slower than compressing. Both hashes are as ReadChunk says
  // if the chunk is in a frame, else the name alone is compared. Errors as ReadChunk.
  Status AppendForOthers(const ChunkRef& ref, const Location& at, int level, std::string* out);

  // A record as stored, checksum checked. kDamaged if the chunk is in a frame.
  Status ReadRaw(const Location& at, uint8_t* buffer, RecordView* record);

  // The level at which `bytes` of content are to be stored: what the options say, but where that is
  // raw and space is short, the fastest.
  int LevelFor(uint64_t bytes) const;

  // Whether so many bytes of records that are here can be copied.
  bool HasRoomFor(uint64_t bytes) const;

  PackReader* reader() { return &reader_; }
  Index* index() { return index_.get(); }
  PackPosition end();
  uint64_t damaged() const { return damaged_; }

 private:
  struct Candidates {
    size_t asked;  // which reference they are for
    unsigned count;
    Location at[LocationTable::kMaxCandidates];
  };

  // In writing.cc: by whom what is put is written, and who makes it durable.
  Status SyncNow(bool behind);
  void Fail(const Status& status, uint64_t round) REQUIRES(mutex_);
  bool StartThread(std::thread* thread, void (Chunks::*body)()) REQUIRES(mutex_);
  void WriteInBackground();
  Status TellFailed() REQUIRES(mutex_);
  Status TakeFailed() REQUIRES(mutex_);
  Status WriteQueued(uint64_t number) REQUIRES(mutex_);
  Status RunWrite(PackWrite* write, bool behind) REQUIRES(mutex_);
  Status WriteAllBefore(uint64_t number) REQUIRES(mutex_);
  void TakeBack() REQUIRES(mutex_);
  bool BeginSync() REQUIRES(mutex_);
  void SyncInBackground();
  Status LoadTable() REQUIRES(mutex_);
  Status Guess(const ChunkRef* refs, size_t n, Location* at);
  Status Expand(const ChunkRef* refs, size_t n, BulkReader* reader, std::vector<uint8_t>* blocks,
                bool* here);
  Status Confirm(const ChunkRef& ref, const Candidates& candidates, Location* at, bool* found);
  std::vector<ChunkRef> LeftFrames(const std::vector<Index::Entry>& put) const REQUIRES(mutex_);
  Status HasNamesake(const ChunkRef& ref, const Candidates& candidates, bool* found)
      REQUIRES(mutex_);
  Status FindSynced(const ChunkRef& ref, Location* at, bool* found) REQUIRES(mutex_);
  Status MoveFrame(const Index::Entry* entries, size_t n, RecordBatch* batch,
                   std::vector<ChunkRef>* lost);
  Status TakeApart(const Index::Entry* entries, size_t n, RecordBatch* batch,
                   std::vector<ChunkRef>* lost);
  bool FindFresh(const ChunkRef& ref, Location* at) const REQUIRES(mutex_);
  Status Readable(const Location& at);

  Env* const env_;
  const std::string folder_;
  const ChunkOptions options_;
  const std::unique_ptr<Index> index_;
  PackReader reader_;
  PageCache pages_;
  std::atomic<uint64_t> damaged_{0};  // records found bad since the store was opened

  Mutex sync_mutex_ ACQUIRED_BEFORE(mutex_);  // one Sync at a time

  Mutex mutex_;
  PackWriter writer_ GUARDED_BY(mutex_);
  RefMap<Location> pending_ GUARDED_BY(mutex_);
  RefMap<Location> syncing_ GUARDED_BY(mutex_);
  LocationTable table_ GUARDED_BY(mutex_);  // what is in the index, once it is loaded
  bool table_loaded_ GUARDED_BY(mutex_) = false;
  std::vector<ChunkRef> namesakes_ GUARDED_BY(mutex_);
  Status broken_ GUARDED_BY(mutex_);  // why writes are refused
  Status failed_ GUARDED_BY(mutex_);  // of a thread below; meanwhile all of them rest
  CondVar wake_;                      // of the threads below
  CondVar written_;                   // a queued piece was written, or not; a Sync has begun
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool told_ GUARDED_BY(mutex_) = false;   // somebody was given `failed_`
  uint64_t round_ GUARDED_BY(mutex_) = 0;  // imports that began
  // From the first time that they are of use.
  std::thread syncer_ GUARDED_BY(mutex_);
  std::array<std::thread, 2> writers_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACKS_CHUNKS_H_
