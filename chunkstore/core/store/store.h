// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A store: a folder that one process at a time has open. Described in docs/formats/store.md.
//
//   store.json         format and version; its presence makes the folder a store
//   LOCK               held while open; says who holds it
//   packs/NNNNNN.pack  the chunks
//   index/             LevelDB
//
// Opening recovers. Records behind the index's end are indexed up to the first that is not whole,
// and the rest of their pack is cut off: nothing there was acknowledged. An index that is gone or
// damaged is rebuilt from the packs; of these nothing is cut but what follows the last whole
// record.
//
// Opening to read does none of that and writes nothing. Several processes may have a store open so,
// and none to write meanwhile. What lies behind the index's end is not looked at; an index that has
// to be made anew is an error.
#ifndef SATCHEL_CHUNKSTORE_CORE_STORE_STORE_H_
#define SATCHEL_CHUNKSTORE_CORE_STORE_STORE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/packs/chunks.h"
#include "chunkstore/core/store/roots_in_use.h"
#include "chunkstore/core/store/settle.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "chunkstore/core/volume/volume.h"

namespace satchel {

struct BadRecord {
  uint32_t pack;
  uint64_t offset;
  std::string why;
};

struct VerifyReport {
  uint64_t records = 0;             // whole records read
  uint64_t bytes = 0;               // bytes of packs read
  uint64_t unclaimed = 0;           // bytes that are no record, where the index has nothing
  std::vector<BadRecord> bad;       // garbage where it has, and records with wrong hashes
  std::vector<ChunkRef> unindexed;  // whole records of chunks that the index does not have
  // In the index, but not whole where it says. Of those in frames the ones that a table page here
  // names; the others are in `bad`.
  std::vector<ChunkRef> dangling;
};

struct PruneReport {
  uint64_t kept = 0;     // chunks
  uint64_t removed = 0;  // chunks
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;     // of packs, without the holes that it made
  uint64_t bytes_in_holes = 0;  // given back in packs for whose copy there was no room
};

struct EvictReport {
  uint64_t evicted = 0;          // chunks
  std::vector<ChunkRef> pinned;  // that a block map points to
  uint64_t pack_bytes = 0;       // of packs, after it
};

struct StoreStats {
  uint64_t chunks = 0;
  uint64_t variants = 0;    // chunks that share their SHA-1 with another chunk here
  uint64_t pack_bytes = 0;  // of whole packs
  uint64_t live_bytes = 0;  // of indexed records and frames
  uint64_t packs = 0;
  uint64_t settled = 0;  // chunks in frames
  uint64_t damaged = 0;  // records found bad since the store was opened
};

// Thread-safe. Operations run side by side, but prune and the rebuilding of the index run alone:
// they wait for the others, and the others for them.
class Store {
 public:
  // Makes an empty store in a folder that is not there, or empty. kExists if it is a store.
  static Status Create(Env* env, const std::string& path);

  // kNotFound, kLocked, kUnsupported (a newer version). `env` outlives the store.
  static Status Open(Env* env, const std::string& path, const ChunkOptions& options,
                     std::unique_ptr<Store>* store);

  // Nothing is written: on a disk that is full or read-only, with a store of another user. What
  // would have to be is kDenied; kDamaged where the index has to be rebuilt.
  static Status OpenToRead(Env* env, const std::string& path, std::unique_ptr<Store>* store);

  // The same for one who has it alone, and may RemoveDead.
  static Status OpenToRelieve(Env* env, const std::string& path, std::unique_ptr<Store>* store);

  // Syncs what it can; call Sync before to learn of errors.
  ~Store();

  // As in Chunks.
  Status Put(const uint8_t* blocks, size_t n, ChunkRef* refs);
  Status Get(const ChunkRef& ref, uint8_t* block);
  Status Has(const ChunkRef* refs, size_t n, bool* has);  // the zero reference always is there
  Status Records(const ChunkRef* refs, size_t n, std::string* out);
  Status Admit(const uint8_t* data, size_t n, std::vector<ChunkRef>* admitted);
  Status Sync();

  // As in volume.h. What they stored is durable when they return.
  Status Import(BlockSource* source, const TableRoot* base, const ProgressFn& progress,
                TableRoot* root, Stored* stored = nullptr);
  Status Export(const TableRoot& root, File* out, const ProgressFn& progress);

  // Export into a temporary file beside `path`, which is renamed to it when it is complete.
  Status ExportFile(const TableRoot& root, const std::string& path, const ProgressFn& progress);

  // Export without a file: reads and checks every chunk of the volume.
  Status Check(const TableRoot& root, const ProgressFn& progress);

  Status Read(const TableRoot& root, uint64_t offset, uint64_t length, uint8_t* out);
  Status Resolve(const TableRoot& root, BlockMap* map, uint64_t first, uint64_t count,
                 std::vector<ChunkRef>* missing);
  Status MissingIn(const TableRoot& root, uint64_t first, uint64_t count,
                   std::vector<ChunkRef>* missing);
  Status Place(BlockMap* map, const uint32_t* numbers, size_t n, const uint8_t* data);
  Status Commit(const TableRoot& root, BlockMap* map, File* overlay, TableRoot* new_root);
  Status Reachable(const std::vector<TableRoot>& roots, std::vector<ChunkRef>* refs);

  // The references under `roots` that are not here. Of a missing page, only the page.
  Status Missing(const std::vector<TableRoot>& roots, std::vector<ChunkRef>* refs);

  // Reads every record and checks both hashes, and the index against the packs. Changes nothing.
  Status Verify(const ProgressFn& progress, VerifyReport* report);

  Status RebuildIndex(const ProgressFn& progress);

  // Closes the store without what was put since the last sync, whose room is free again: after a
  // write for which there was none. An index needs room to be opened. No machine may be running.
  Status GiveBack();

  // Removes chunks that are not reachable from `keep`, from a young root or from an attached one
  // (see in_use). Packs that the `maps` or attached ones point into stay as they are. A page under
  // `keep` that is not here is kMissing and nothing is removed, unless `partial` says that this
  // store is a cache. `dry_run`: changes nothing, and tells what would be. kFull: nothing could be
  // given back, because the disk has no room for copies and no holes.
  Status Prune(const std::vector<TableRoot>& keep, const std::vector<const BlockMap*>& maps,
               bool partial, bool dry_run, const ProgressFn& progress, PruneReport* report);

  // Copies what is whole and indexed out of these packs to new ones, and removes them: garbage in
  // them is gone then. Packs that attached maps point into stay.
  Status Rewrite(const std::vector<uint32_t>& packs);

  // For a cache: gives these chunks up, but for those that attached maps point to, and the room
  // that they took where there is much of it. What the maps point to may move. See evict.cc.
  Status Evict(const std::vector<ChunkRef>& refs, EvictReport* report);

  // Every chunk, in the order in which they stand in the packs.
  Status Names(std::vector<ChunkRef>* refs);

  // What blocks of an attached map are, by what stands in the packs; the zero reference for one
  // that is not packed, and for one that moved meanwhile.
  Status NamesIn(const BlockMap& map, const std::vector<uint64_t>& blocks,
                 std::vector<ChunkRef>* refs);

  // As in settle.h. Runs beside everything else; a second call waits for the first.
  Status Settle(const SettleOptions& options, const ProgressFn& progress, SettleReport* report);

  // Settle and Prune regard this map, which they would otherwise learn of when it is first used
  // here: of a volume that another process attached.
  void Regard(BlockMap* map);

  Status Stats(StoreStats* stats);

  // As in Chunks.
  std::vector<ChunkRef> TakeNamesakes();

  // What makes roots says so there before and after, and so does who prunes; volumes that are
  // attached are told to it.
  RootsInUse* in_use() { return &in_use_; }

  const std::string& path() const { return path_; }

  // Of a store that was opened to relieve a disk that is too full to open it otherwise: removes,
  // without the room that a Prune needs, what was never acknowledged and what is not reachable from
  // `keep`. The next Prune has the index forget it. *freed: bytes. See relieve.cc.
  Status RemoveDead(const std::vector<TableRoot>& keep, uint64_t* freed);

  // Runs `act` as one operation: not beside a prune, which waits for it.
  Status WithChunks(const std::function<Status(Chunks*)>& act);

 private:
  enum class Access : uint8_t { kWrite, kRead, kRelieve };

  Store(Env* env, std::string path, const ChunkOptions& options, Access access);
  static Status OpenFor(Access access, Env* env, const std::string& path,
                        const ChunkOptions& options, std::unique_ptr<Store>* store);

  // What of a pack the index does not have.
  struct Unindexed {
    uint32_t pack;
    uint64_t from;
    bool newest;
    bool rebuild;   // the index is being rebuilt
    uint64_t sure;  // bytes behind this were certainly never acknowledged
  };

  class Settling;

  Turn SettleTurn() const;
  void FindInMaps(uint32_t pack, std::vector<Location>* places);
  uint64_t RepointMaps(uint32_t pack, const Moves& moves);
  void PinPacks(std::set<uint32_t>* pinned);

  // A pack of a cache that is to go: what of it is in the index.
  struct PackEntries {
    uint32_t pack = 0;
    uint64_t live = 0;  // bytes
    std::vector<Index::Entry> entries;
  };

  Status Alone(const std::function<Status(Chunks*)>& act);
  Status Drop(const std::vector<ChunkRef>& refs, EvictReport* report);
  Status FindSparsePacks(std::vector<PackEntries>* packs);
  Status ForEachIndexed(const std::function<void(const ChunkRef&, const Location&)>& visit);
  Status Vacate(const PackEntries& pack);
  void FindInMaps(const std::unordered_set<uint64_t>& places, std::unordered_set<uint64_t>* used);

  std::string PacksPath() const { return path_ + "/packs"; }
  std::string IndexPath() const { return path_ + "/index"; }
  std::string PackPath(uint32_t pack) const { return PacksPath() + "/" + PackName(pack); }
  Status ListPacks(std::vector<uint32_t>* packs);

  // `acknowledged`: how far the packs are; null where only the index could tell.
  Status Load(const ProgressFn& progress, const PackPosition* acknowledged) REQUIRES(gate_);
  Status LoadToRead() REQUIRES(gate_);
  Status CutAfter(Env* env, const PackPosition& end);
  Status TakeLock();
  Status RemoveDead(Chunks* chunks, const std::vector<TableRoot>& keep, uint64_t* freed);
  Status PackSizes(std::map<uint32_t, uint64_t>* sizes);
  Status RecoverTail(Index* index, const ProgressFn& progress, const PackPosition* acknowledged,
                     PackPosition* end);
  Status RecoverPack(Index* index, const Unindexed& part, const ProgressFn& progress,
                     uint64_t* end);
  Status IndexRecords(Index* index, const Unindexed& part, File* file, bool trusted, uint64_t size,
                      const ProgressFn& progress, uint64_t* good);

  Env* const outside_;
  const Access access_;
  const std::unique_ptr<ReadingEnv> reading_;  // of a store that is opened to read
  Env* const env_;
  const std::string path_;
  const ChunkOptions options_;
  PackPosition seen_{UINT32_MAX, UINT64_MAX};  // what lies behind it is as if it were not there
  RootsInUse in_use_;
  std::unique_ptr<FileLock> lock_;
  Mutex settle_mutex_ ACQUIRED_BEFORE(gate_);  // one Settle at a time
  SharedMutex gate_;                           // shared: operations; alone: prune, rebuild
  std::unique_ptr<Chunks> chunks_ GUARDED_BY(gate_);

  std::atomic<int> foreground_{0};     // operations that settling waits for
  std::atomic<int> wanting_alone_{0};  // operations that wait for gate_

  Mutex maps_mutex_;
  std::vector<std::shared_ptr<BlockMapHandle>> maps_ GUARDED_BY(maps_mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_STORE_STORE_H_
