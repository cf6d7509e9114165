// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/native/inspect.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "chunkstore/core/media/media.h"
#include "chunkstore/core/store/store.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

#define SATCHEL_RETURN_IF_FAULT(expression)             \
  do {                                                  \
    std::string satchel_fault_ = (expression);          \
    if (!satchel_fault_.empty()) return satchel_fault_; \
  } while (0)

std::string Failed(const std::string& what, const Status& status) {
  return status.ok() ? std::string() : what + " failed: " + status.ToString();
}

uint8_t* Bytes(std::string* text) { return reinterpret_cast<uint8_t*>(text->data()); }

using Block = std::shared_ptr<const std::string>;

// That no life puts.
const std::vector<Block>& NewBlocks() {
  static const std::vector<Block> blocks = [] {
    std::vector<Block> made;
    for (uint64_t i = 0; i < 4; ++i)
      made.push_back(std::make_shared<std::string>(MakeBlock(11, i)));
    return made;
  }();
  return blocks;
}

class Inspection {
 public:
  Inspection(SimDisk* disk, size_t position, Promises* promises)
      : disk_(disk), position_(position), promises_(promises), way_(disk) {
    if (promises->media_keys.empty()) return;
    sealed_ = std::make_unique<SealedEnv>(disk, promises->media_keys);
    way_ = sealed_.get();
  }

  std::string Run(const Depth& depth) {
    SATCHEL_RETURN_IF_FAULT(ReadAlone());
    SATCHEL_RETURN_IF_FAULT(OpenStore());
    SATCHEL_RETURN_IF_FAULT(Look("after opening"));
    if (depth.verify) SATCHEL_RETURN_IF_FAULT(CheckVerify(depth.rebuilt, relieved()));
    SATCHEL_RETURN_IF_FAULT(CheckMedia());
    SATCHEL_RETURN_IF_FAULT(Use());
    if (depth.settle) {
      SettleReport report;
      SATCHEL_RETURN_IF_FAULT(Failed("settling", SettleQuickly(store_.get(), &report)));
      SATCHEL_RETURN_IF_FAULT(Look("after settling"));
    }
    if (depth.reopen) {
      SATCHEL_RETURN_IF_FAULT(OpenStore());
      SATCHEL_RETURN_IF_FAULT(Look("after opening again"));
    }
    if (depth.rebuild) {
      SATCHEL_RETURN_IF_FAULT(Failed("rebuilding the index", store_->RebuildIndex(nullptr)));
      SATCHEL_RETURN_IF_FAULT(Look("after rebuilding the index"));
    }
    return depth.verify && relieved() ? PruneAndVerify(depth.rebuilt) : std::string();
  }

 private:
  // Who only reads finds all that was promised, or hears that the index has to be rebuilt, and
  // leaves the disk as it is.
  std::string ReadAlone() {
    const size_t before = disk_->Position();
    const Status status = Store::OpenToRead(disk_, kStorePath, &store_);
    std::string fault;
    if (status.ok()) {
      fault = Look("to who only reads");
    } else if (!status.Is(Kind::kDamaged) && promises_->store.Holds(position_)) {
      fault = Failed("opening to read", status);
    }
    store_.reset();
    if (!fault.empty()) return fault;
    return disk_->Position() == before ? "" : "who only reads has changed the disk";
  }

  std::string OpenStore() {
    store_.reset();
    Status status = Store::Open(disk_, kStorePath, SmallOptions(), &store_);
    if (status.Is(Kind::kNotFound) && !promises_->store.Holds(position_)) {
      SATCHEL_RETURN_IF_FAULT(Failed("making the store", Store::Create(disk_, kStorePath)));
      status = Store::Open(disk_, kStorePath, SmallOptions(), &store_);
    }
    return Failed("opening the store", status);
  }

  // Everything that can be asked for is right, or at least not promised.
  std::string Look(const std::string& when) {
    for (const auto& [name, volume] : promises_->volumes) {
      SATCHEL_RETURN_IF_FAULT(Volume(name, volume, when));
    }
    for (const PromisedChunk& chunk : promises_->chunks) {
      SATCHEL_RETURN_IF_FAULT(Chunk(chunk, when));
    }
    for (const PromisedChunk& chunk : fresh_) SATCHEL_RETURN_IF_FAULT(Chunk(chunk, when));
    return {};
  }

  std::string Volume(const std::string& name, const PromisedVolume& volume,
                     const std::string& when) {
    const std::string path = std::string(kNamesPath) + "/" + name;
    const bool promised = volume.when.Holds(position_);
    if (!disk_->Exists(path)) return promised ? "the name " + name + " is lost" : std::string();
    std::string text;
    TableRoot root;
    SATCHEL_RETURN_IF_FAULT(Failed("reading the name", ReadFile(disk_, path, 4096, &text)));
    if (!ParseName(text, &root)) return "the file of the name " + name + " is torn";
    if (root.ref != volume.root.ref) return "the name " + name + " names something else";
    content_.resize(root.size);
    const Status status = store_->Read(root, 0, root.size, Bytes(&content_));
    if (!status.ok()) return Failed("reading volume " + name + " " + when, status);
    if (content_ != *volume.content) return "volume " + name + " is WRONG " + when;
    return {};
  }

  std::string Chunk(const PromisedChunk& chunk, const std::string& when) {
    const Status status = store_->Get(chunk.ref, Bytes(&block_));
    const bool promised = chunk.when.Holds(position_);
    if (status.ok() && block_ != *chunk.block) return "a chunk is WRONG " + when;
    if (status.ok()) return {};
    if (promised) return "a chunk is lost " + when + ": " + status.ToString();
    // The store must not believe to have what it has not: the chunk would never be stored again.
    bool has = false;
    SATCHEL_RETURN_IF_FAULT(Failed("asking for a chunk", store_->Has(&chunk.ref, 1, &has)));
    const bool known = status.Is(Kind::kMissing) || relieved();
    if (has || !known) return "a chunk is in the index only: " + status.ToString();
    return {};
  }

  // What was removed to make room may still be in the index, and look like damage, until the next
  // prune.
  bool relieved() const { return promises_->relieved.Holds(position_); }

  // relieved: what was removed to make room may be in the index.
  std::string CheckVerify(bool rebuilt, bool relieved) {
    VerifyReport report;
    SATCHEL_RETURN_IF_FAULT(Failed("verify", store_->Verify(nullptr, &report)));
    if (relieved) return {};
    if (!report.dangling.empty()) {
      return std::to_string(report.dangling.size()) + " chunks are in the index only";
    }
    if (report.bad.empty() || rebuilt) return {};
    const std::vector<Op> journal = disk_->Journal();
    if (RebuildsIndex(journal, journal.size())) return {};
    return "verify calls a crash damage: " + report.bad[0].why + " in pack " +
           std::to_string(report.bad[0].pack) + " at " + std::to_string(report.bad[0].offset);
  }

  std::string PruneAndVerify(bool rebuilt) {
    std::vector<TableRoot> keep;
    for (const auto& [name, volume] : promises_->volumes) {
      if (disk_->Exists(std::string(kNamesPath) + "/" + name)) keep.push_back(volume.root);
    }
    promises_->PutIsGarbage(disk_->Position());
    PruneReport pruned;
    SATCHEL_RETURN_IF_FAULT(
        Failed("prune", store_->Prune(keep, {}, false, false, nullptr, &pruned)));
    return CheckVerify(rebuilt, false);
  }

  std::string CheckMedia() {
    std::unique_ptr<Media> media;
    Status status = Media::Open(way_, kMediaPath, &media);
    if ((status.Is(Kind::kNotFound) || status.Is(Kind::kDamaged)) &&
        !promises_->media.Holds(position_)) {
      status = Media::Init(way_, kMediaPath, "00000000-0000-4000-8000-000000000001");
      SATCHEL_RETURN_IF_FAULT(Failed("making the medium", status));
      status = Media::Open(way_, kMediaPath, &media);
    }
    SATCHEL_RETURN_IF_FAULT(Failed("opening the medium", status));
    for (const PromisedChunk& chunk : promises_->on_media) {
      SATCHEL_RETURN_IF_FAULT(OnMedia(media.get(), chunk));
    }
    SATCHEL_RETURN_IF_FAULT(CheckGenerations(media.get()));
    return CommitAgain(media.get());
  }

  // Every generation that opens is whole to the last byte, and none that was promised is lost.
  std::string CheckGenerations(Media* media) {
    const std::vector<MediaGeneration> found = media->generations();
    for (const PromisedGeneration& promised : promises_->generations) {
      if (!promised.when.Holds(position_)) continue;
      if (found.empty() || found[0].commit.generation < promised.number) {
        return "generation " + std::to_string(promised.number) + " of the medium is lost";
      }
    }
    for (const MediaGeneration& generation : found) {
      if (!generation.why.empty()) {
        return "generation " + std::to_string(generation.commit.generation) +
               " of the medium is not whole: " + generation.why;
      }
      TableRoot root;
      SATCHEL_RETURN_IF_FAULT(RootOf(generation, &root));
      std::vector<ChunkRef> lacking;
      SATCHEL_RETURN_IF_FAULT(Failed("walking a generation", media->Missing({root}, &lacking)));
      if (!lacking.empty()) return "a generation of the medium lacks chunks";
      RefSet refs;
      SATCHEL_RETURN_IF_FAULT(
          Failed("walking a generation", CollectReachable(media, {root}, false, &refs)));
      for (const auto& entry : refs.entries()) {
        const bool fresh = served_.Insert(entry.ref, {}).second;
        if (fresh) SATCHEL_RETURN_IF_FAULT(Serves(media, entry.ref));
      }
    }
    return {};
  }

  std::string RootOf(const MediaGeneration& generation, TableRoot* root) {
    if (generation.commit.files.size() != 1) return "a commit names other files than were given";
    const std::string path =
        std::string(kMediaPath) + "/satchel/" + generation.commit.files[0].path;
    std::string text;
    SATCHEL_RETURN_IF_FAULT(Failed("reading a manifest", ReadFile(way_, path, 4096, &text)));
    return ParseName(text, root) ? std::string() : "a manifest of the medium is WRONG";
  }

  std::string Serves(Media* media, const ChunkRef& ref) {
    std::string data;
    MediaNotes notes;
    SATCHEL_RETURN_IF_FAULT(Failed("reading the medium", media->Records(&ref, 1, &data, &notes)));
    RecordView record;
    const bool right = ParseRecord(Bytes(&data), data.size(), &record).ok() && record.ref == ref &&
                       VerifyRecord(record, Bytes(&block_)).ok();
    return right ? std::string() : "a generation of the medium serves a chunk that is not whole";
  }

  // The next writer comes to its end. Nothing but this generation is kept by it.
  std::string CommitAgain(Media* media) {
    const std::vector<MediaGeneration> found = media->generations();
    if (found.empty()) return {};
    MediaDraft draft;
    draft.paths = {found[0].commit.files[0].path};
    draft.roots.emplace_back();
    SATCHEL_RETURN_IF_FAULT(RootOf(found[0], &draft.roots[0]));
    RefSet kept;
    SATCHEL_RETURN_IF_FAULT(
        Failed("walking a generation", CollectReachable(media, draft.roots, false, &kept)));
    for (PromisedChunk& chunk : promises_->on_media) {
      if (kept.Find(chunk.ref) == nullptr) {
        chunk.when.until = std::min(chunk.when.until, disk_->Position());
      }
    }
    uint64_t generation = 0;
    uint64_t freed = 0;
    MediaNotes notes;
    const Status status = media->Commit(draft, 0, &generation, &freed, &notes);
    SATCHEL_RETURN_IF_FAULT(Failed("committing to the medium again", status));
    served_.Clear();
    if (generation <= found[0].commit.generation) return "a generation has an older one's number";
    promises_->generations.push_back({generation, {disk_->Position()}});
    return CheckGenerations(media);
  }

  std::string OnMedia(Media* media, const PromisedChunk& chunk) {
    std::string data;
    MediaNotes notes;
    SATCHEL_RETURN_IF_FAULT(
        Failed("reading the medium", media->Records(&chunk.ref, 1, &data, &notes)));
    if (data.empty()) {
      return chunk.when.Holds(position_) ? "a chunk is lost on the medium" : std::string();
    }
    RecordView record;
    SATCHEL_RETURN_IF_FAULT(
        Failed("parsing a record of the medium", ParseRecord(Bytes(&data), data.size(), &record)));
    SATCHEL_RETURN_IF_FAULT(
        Failed("verifying a record of the medium", VerifyRecord(record, Bytes(&block_))));
    if (block_ != *chunk.block) return "a chunk of the medium is WRONG";
    if (record.ref == chunk.ref) served_.Insert(chunk.ref, {});
    return {};
  }

  // The store takes what is new, and what it may have lost, and gives both back.
  std::string Use() {
    for (const Block& block : NewBlocks()) SATCHEL_RETURN_IF_FAULT(PutBlock(block));
    for (const PromisedChunk& chunk : promises_->chunks) {
      if (!chunk.when.Holds(position_)) SATCHEL_RETURN_IF_FAULT(PutBlock(chunk.block));
    }
    SATCHEL_RETURN_IF_FAULT(Failed("syncing after recovery", store_->Sync()));
    for (PromisedChunk& chunk : fresh_) {
      chunk.when.from = disk_->Position();
      promises_->chunks.push_back(chunk);
      chunk.when.from = 0;  // for this inspection it holds from now on
    }
    return {};
  }

  std::string PutBlock(const Block& block) {
    ChunkRef ref;
    const auto* bytes = reinterpret_cast<const uint8_t*>(block->data());
    SATCHEL_RETURN_IF_FAULT(Failed("putting after recovery", store_->Put(bytes, 1, &ref)));
    if (!ref.IsZero()) fresh_.push_back({ref, block, {}});
    return {};
  }

  SimDisk* const disk_;
  const size_t position_;
  Promises* const promises_;
  std::unique_ptr<SealedEnv> sealed_;
  Env* way_;  // to the medium
  std::unique_ptr<Store> store_;
  std::vector<PromisedChunk> fresh_;                   // stored by this inspection
  RefSet served_;                                      // whole by the medium, since it was changed
  std::string block_ = std::string(kBlockSize, '\0');  // read last
  std::string content_;                                // of the volume that was read last
};

}  // namespace

bool RebuildsIndex(const std::vector<Op>& journal, size_t end) {
  const auto begin = journal.begin();
  return std::any_of(begin, begin + static_cast<ptrdiff_t>(end), [](const Op& op) {
    return op.type == Op::Type::kRename && op.name == "index";
  });
}

std::string Inspect(SimDisk* disk, size_t position, const Depth& depth, Promises* promises) {
  return Inspection(disk, position, promises).Run(depth);
}

}  // namespace satchel::sim
