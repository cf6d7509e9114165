// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Room on a disk that is too full to open a store on it: what nothing needs goes, and nothing is
// written for that but zeros over what goes. Three things leave the packs:
//
//   - what lies behind the index's end, which was never acknowledged
//   - packs of which nothing is kept
//   - what lies between records that are kept, as holes (holes.h)
//
// The index stays as it is, and a crash may leave it so.
#include <map>
#include <vector>

#include "chunkstore/core/store/holes.h"
#include "chunkstore/core/store/store.h"

namespace satchel {

Status Store::RemoveDead(const std::vector<TableRoot>& keep, uint64_t* freed) {
  if (access_ != Access::kRelieve) {
    return Status::Make(Kind::kUsage, "cannot remove from store " + path_,
                        "others may have it open");
  }
  return WithChunks([&](Chunks* chunks) { return RemoveDead(chunks, keep, freed); });
}

Status Store::RemoveDead(Chunks* chunks, const std::vector<TableRoot>& keep, uint64_t* freed) {
  RefSet reachable;
  SATCHEL_RETURN_IF_ERROR(CollectReachable(chunks, keep, /*partial=*/false, &reachable));
  RefSet kept;
  for (const auto& entry : reachable.entries()) kept.Insert(entry.ref.Cut(), {});
  std::map<uint32_t, PackUse> uses;
  SATCHEL_RETURN_IF_ERROR(chunks->index()->ForEach([&](const ChunkRef& ref, const Location& at) {
    PackUse& use = uses[at.pack];
    if (kept.Find(ref.Cut()) == nullptr) {
      use.others.push_back(at);
    } else {
      use.kept.push_back(at);
    }
    return Status();
  }));
  std::map<uint32_t, uint64_t> sizes;
  SATCHEL_RETURN_IF_ERROR(PackSizes(&sizes));
  *freed = 0;
  for (const auto& [pack, size] : sizes) {
    PackUse& use = uses[pack];
    chunks->reader()->Forget(pack);
    if (use.kept.empty()) {
      SATCHEL_RETURN_IF_ERROR(outside_->Remove(PackPath(pack)));
      *freed += size;
      continue;
    }
    std::unique_ptr<File> file;
    SATCHEL_RETURN_IF_ERROR(outside_->Open(PackPath(pack), OpenMode::kReadWrite, &file));
    uint64_t left = 0;
    SATCHEL_RETURN_IF_ERROR(MakeHoles(file.get(), &use, size, freed, &left));
  }
  SATCHEL_RETURN_IF_ERROR(CutAfter(outside_, seen_));
  return outside_->SyncDir(PacksPath());
}

}  // namespace satchel
