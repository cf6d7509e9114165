// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A portable medium: FAT32 or exFAT, read by anyone, trusted by nobody, pulled out at any moment.
// Described in docs/formats/media.md.
//
//   ROOT/satchel/media.json              format, version, UUID
//   ROOT/satchel/packs/NNNNNN.pack       closed packs, as in a store; never changed
//   ROOT/satchel/packs/NNNNNN.idx        the index of that pack
//   ROOT/satchel/commits/NNNNNN.commit   what generation NNNNNN consists of
//   ROOT/satchel/checkpoints/...         manifests and signatures
//   ROOT/satchel/log/...                 logs, of those who make them
//
// Neither a rename nor a write into an existing file can be relied on where there is no journal, so
// there is none of them: every file is written once under its final name, synced, then its folder.
// What no commit file names does not count, and a commit file is written last. Two generations are
// kept; the files of an older one are removed after its commit file is, and nothing is written
// before that removal is durable: clusters that are free on one half of a FAT only are what file
// systems without a journal get wrong.
//
//   state on the medium                         what opens
//   packs, manifests of generation n + 1        n; the packs are not written a second time
//   a torn commit file n + 1                    n
//   commit file n + 1                           n + 1
//   files that only n - 1 named                 n + 1, and n; the next writer removes the rest
//
// A folder of FAT that is made, or gets another cluster, may come apart, too. So there are these
// four and no more, and each has the room that it will need from its beginning (MakeRoom): FAT
// folders never shrink.
//
// A pack without a usable index file is scanned if a commit names it. A pack that is cut off or
// garbage gives fewer chunks, never wrong ones: whoever receives a record checks its hashes.
#ifndef SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_H_
#define SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chunkstore/core/media/media_commit.h"
#include "chunkstore/core/media/media_index.h"
#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/packs/chunks.h"
#include "chunkstore/core/volume/volume.h"

namespace satchel {

constexpr uint64_t kMediaPackLimit = uint64_t{64} << 20;  // bytes

// Generations that are kept.
constexpr size_t kMediaGenerations = 2;

// Chunks that the indexes of one medium may name: an enemy's medium must not fill the memory.
constexpr size_t kMediaChunkLimit = size_t{1} << 24;

// Room for names in a folder, in bytes, and what a pack and its index take of it on FAT.
constexpr uint64_t kMediaFolderRoom = 16384;
constexpr uint64_t kMediaPackRoom = 128;

// Bytes of a manifest, a signature or the like.
constexpr size_t kMediaFileLimit = size_t{1} << 20;

// What a call met besides its result.
struct MediaNotes {
  std::vector<ChunkRef> damaged;  // records that are not whole any more
  bool store_failed = false;      // the error is the store's, not the medium's
};

struct MediaGeneration {
  MediaCommit commit;
  std::string why;  // what of it is not there; empty if it is whole
};

// What a new generation is to consist of.
struct MediaDraft {
  std::vector<std::string> paths;  // of files that are on the medium, below satchel/
  std::vector<TableRoot> roots;    // have to be on the medium whole
  std::vector<TableRoot> carried;  // of checkpoints that were there before, whole or not
  std::vector<TableRoot> partial;  // of which the medium has a part, and keeps that
  std::vector<ChunkRef> chunks;    // to be kept besides, have to be on the medium
  bool keep_packs = false;         // somebody needs chunks that no root here names
};

struct MediaBadRecord {
  uint32_t pack;
  uint64_t offset;
  std::string why;
};

struct MediaReport {
  uint64_t records = 0;             // whole ones, both hashes right
  uint64_t bytes = 0;               // of packs read
  std::vector<MediaBadRecord> bad;  // places where packs hold something else
  std::vector<ChunkRef> damaged;    // chunks that an index names and no pack has whole
};

// Thread-safe; what writes runs one at a time. One process writes to a medium at a time: the
// caller's duty, as FAT knows no locks. Errors about the medium are kGone, kDenied, kFull, kIo.
class Media final : public PageSource {
 public:
  // kExists if there is one. `uuid` identifies it from now on. Other files are left alone.
  static Status Init(Env* env, const std::string& root, const std::string& uuid);

  // Writes media.json anew where it is lost or damaged: with the UUID that a commit file has, or
  // else `uuid`. kNotFound where nothing else says that there was a medium.
  static Status Redescribe(Env* env, const std::string& root, const std::string& uuid);

  // kNotFound, kDamaged, kUnsupported. Writes nothing.
  static Status Open(Env* env, const std::string& root, std::unique_ptr<Media>* media);

  // Those whose commit file is whole, the newest first.
  std::vector<MediaGeneration> generations();

  void Has(const ChunkRef* refs, size_t n, bool* has);

  // Appends the records of those that are here, in order; their content is not verified. The
  // medium is read in the order in which they lie there, so that its head goes over it once.
  Status Records(const ChunkRef* refs, size_t n, std::string* out, MediaNotes* notes);

  Status GetPage(const ChunkRef& ref, unsigned level, std::shared_ptr<const Page>* page) override;

  // The references under `roots` that are not here. Of a missing page, only the page.
  Status Missing(const std::vector<TableRoot>& roots, std::vector<ChunkRef>* refs);

  // Copies the records of those that are not here yet from a store, in order, into new packs;
  // *written is what that took in bytes. `all` of a new generation: where room lacks, generations
  // older than the newest whole one make it, but none of these chunks goes. After an error complete
  // packs stay, so that another call goes on from there; when `progress` stops it, what was copied
  // stays. kFull, before anything is written, if they do not fit; kMissing if the store lacks one.
  // The first `again` of them are copied also if they are here: from then on they are found in one
  // piece.
  Status Add(RecordSource* from, const ChunkRef* all, size_t n, size_t again,
             const ProgressFn& progress, uint64_t* written, MediaNotes* notes);

  // How many chunks under `roots` are here, and in how many pieces they lie, in the order in which
  // Add copies them: who reads them so moves the head of a disk once for each piece.
  Status Pieces(const std::vector<TableRoot>& roots, uint64_t* chunks, uint64_t* pieces);

  // Writes a small file, `path` as IsMediaPath has it. One that is there with this
  // content stays; another one is replaced only if no generation names it, else kExists.
  Status PutFile(const std::string& path, const std::string& data);

  // What is there at such a path, at most kMediaFileLimit bytes, whatever it is.
  Status ReadSmall(const std::string& path, std::string* data);

  // Makes the next generation, durable on return, and forgets all but the one before it. Packs
  // without anything needed are not part of it; the rest of those that are mostly garbage, and of
  // many small ones, is copied together first where there is room. kMissing if a chunk under
  // draft.roots is not here. *freed becomes the bytes of packs that were removed.
  Status Commit(const MediaDraft& draft, uint64_t created, uint64_t* generation, uint64_t* freed,
                MediaNotes* notes);

  // Reads every record and checks both hashes. Changes nothing on the medium; this object does
  // not count damaged chunks as here any more.
  Status Verify(const ProgressFn& progress, MediaReport* report);

  // The same, for all packs that there are; then replaces indexes that are not what was read.
  Status RebuildIndexes(const ProgressFn& progress, MediaReport* report);

  Status FreeBytes(uint64_t* bytes);

  size_t chunks();

 private:
  class PackFile;
  class Adder;
  class Checker;

  struct PackInfo {
    uint64_t size = 0;    // bytes
    uint32_t chunks = 0;  // that its index names
  };

  Media(Env* env, std::string root, std::array<uint8_t, 16> uuid);

  std::string Below(const std::string& path) const { return root_ + "/satchel/" + path; }
  std::string PacksPath() const { return Below("packs"); }
  std::string CommitPath(uint64_t generation) const {
    return Below("commits/") + MediaCommitName(generation);
  }
  std::string PathOf(uint32_t pack, const char* suffix) const;

  // media.cc
  static Status MakeFolders(Env* env, const std::string& root);
  static Status MakeRoom(Env* env, const std::string& folder, uint64_t bytes);
  static Status ReadUuid(Env* env, const std::string& root, std::array<uint8_t, 16>* uuid);
  Status Load();
  Status LoadCommits();
  Status LoadPacks();
  Status LoadPack(uint32_t pack, bool scan);
  Status ReadEntries(uint32_t pack, bool scan, uint64_t* size,
                     std::vector<MediaIndexEntry>* entries);
  Status ReadIndex(uint32_t pack, uint64_t size, std::vector<MediaIndexEntry>* entries);
  Status ScanInto(uint32_t pack, std::vector<MediaIndexEntry>* entries);
  std::string Lacks(const MediaCommit& commit);
  void AddEntries(uint32_t pack, uint64_t size, const std::vector<MediaIndexEntry>& entries)
      REQUIRES(mutex_);
  Status ReadWhole(const ChunkRef& ref, const Location& at, uint8_t* buffer, RecordView* record,
                   bool* whole, MediaNotes* notes);
  std::map<uint32_t, PackInfo> packs();
  std::set<uint32_t> Named();
  Status NextPack(uint32_t* pack);

  // kNotFound is all right.
  static Status AllowAbsent(const Status& status) {
    return status.Is(Kind::kNotFound) ? Status() : status;
  }

  // What vanished from a medium that is still there is damage; else the medium is gone.
  Status Judge(const Status& status);

  // Of reading one file: ok where the medium is still there, so that only this file is of no use.
  // A file system without a journal gives errors for what was being written when it was pulled out.
  Status Excuse(const Status& status);

  // media_write.cc
  Status Prepare() REQUIRES(write_mutex_);
  bool HasNewest() REQUIRES(write_mutex_);
  Status RemoveTorn() REQUIRES(write_mutex_);
  Status RemoveUnfinished() REQUIRES(write_mutex_);
  Status CheckWhole(uint32_t pack, bool* whole);
  Status CollectNeeded(const MediaDraft& draft, RefSet* needed, bool* all_known);
  Status Gather(const RefSet& needed, std::set<uint32_t>* keep, MediaNotes* notes)
      REQUIRES(write_mutex_);
  Status DescribeFiles(const MediaDraft& draft, std::vector<MediaFile>* files);
  Status DropGenerations(size_t keep, const std::set<uint32_t>& spare, uint64_t* freed)
      REQUIRES(write_mutex_);
  Status RemovePacks(const std::set<uint32_t>& packs, uint64_t* freed) REQUIRES(write_mutex_);

  Env* const env_;
  const std::string root_;
  const std::array<uint8_t, 16> uuid_;
  PackReader reader_;

  Mutex write_mutex_ ACQUIRED_BEFORE(mutex_);  // whoever writes has it
  bool prepared_ GUARDED_BY(write_mutex_) = false;
  bool uncertain_ GUARDED_BY(write_mutex_) = false;  // a write failed: the next one reads all anew

  Mutex mutex_;
  RefMap<Location> places_ GUARDED_BY(mutex_);
  std::map<uint32_t, PackInfo> packs_ GUARDED_BY(mutex_);
  std::vector<MediaGeneration> generations_ GUARDED_BY(mutex_);  // the newest first
  uint64_t last_generation_ GUARDED_BY(mutex_) = 0;  // also of commit files that are torn
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_MEDIA_MEDIA_H_
