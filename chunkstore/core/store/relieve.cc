// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Room on a disk that is too full to open a store on it: what nothing needs goes, and nothing is
// written for that but zeros over what goes. Three things leave the packs:
//
//   - what lies behind the index's end, which was never acknowledged
//   - packs of which nothing is kept
//   - what lies between records that are kept, as holes
//
// The index stays as it is, and a crash may leave it so. So no chunk that it still has may look as
// if it were here: one whose record or frame has no header where the index says is not
// (Chunks::Confirm). Therefore the headers in a hole are zero, durably, before the rest of it goes.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/store/store.h"

namespace satchel {
namespace {

constexpr uint64_t kWorthAHole = 4096;  // bytes: less may free no block of the disk

struct Range {
  uint32_t begin;
  uint32_t end;
};

bool Before(const Location& a, const Location& b) { return a.offset < b.offset; }

// What the index has in one pack.
struct PackUse {
  std::vector<Location> kept;  // those in one frame may be several
  std::vector<Location> others;
};

Status ZeroHeaders(File* file, const std::vector<Location>& others,
                   const std::vector<Range>& holes) {
  constexpr char kZeros[kRecordHeaderSize] = {};
  auto hole = holes.begin();
  for (const Location& at : others) {
    while (hole != holes.end() && hole->end <= at.offset) ++hole;
    if (hole == holes.end()) break;
    if (at.offset < hole->begin) continue;
    const size_t size = at.in_frame() ? kFrameHeaderSize : kRecordHeaderSize;
    SATCHEL_RETURN_IF_ERROR(file->WriteAt(at.offset, kZeros, size));
  }
  return file->Sync();
}

// Where what is kept at `at` ends. Of a frame the index has that rounded up, to within the header
// of what follows; behind one that is damaged nobody can tell, and nothing is touched.
Status EndOf(File* file, const Location& at, uint64_t* end) {
  *end = uint64_t{at.offset} + at.size();
  if (!at.in_frame()) return {};
  FrameHeader header;
  size_t got = 0;
  SATCHEL_RETURN_IF_ERROR(file->ReadAt(at.offset, sizeof header, &header, &got));
  const bool whole = got == sizeof header && header.magic == kFrameMagic;
  const bool known = whole && FrameLength(header.length) == at.length;
  *end = known ? uint64_t{at.offset} + kFrameHeaderSize + header.length : UINT64_MAX;
  return {};
}

// Between what is kept, up to `end`.
Status FindHoles(File* file, std::vector<Location>* kept, uint64_t end, std::vector<Range>* holes) {
  std::sort(kept->begin(), kept->end(), Before);
  uint64_t at = kPackHeaderSize;
  const auto add = [&](uint64_t until) {
    if (until < at || until - at < kWorthAHole) return;
    holes->push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(until)});
  };
  uint64_t next = 0;
  for (const Location& each : *kept) {
    if (each.offset < at) continue;  // in the same frame as the one before
    add(each.offset);
    SATCHEL_RETURN_IF_ERROR(EndOf(file, each, &next));
    at = std::max(at, next);
  }
  add(end);
  return {};
}

Status MakeHoles(File* file, PackUse* use, uint64_t end, uint64_t* freed) {
  std::vector<Range> holes;
  SATCHEL_RETURN_IF_ERROR(FindHoles(file, &use->kept, end, &holes));
  if (holes.empty()) return {};
  std::sort(use->others.begin(), use->others.end(), Before);
  SATCHEL_RETURN_IF_ERROR(ZeroHeaders(file, use->others, holes));
  for (const Range& hole : holes) {
    const Status status = file->PunchHole(hole.begin, hole.end - hole.begin);
    if (status.Is(Kind::kUnsupported)) return {};
    SATCHEL_RETURN_IF_ERROR(status);
    *freed += hole.end - hole.begin;
  }
  return file->Sync();
}

}  // namespace

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
    SATCHEL_RETURN_IF_ERROR(MakeHoles(file.get(), &use, size, freed));
  }
  SATCHEL_RETURN_IF_ERROR(CutAfter(outside_, seen_));
  return outside_->SyncDir(PacksPath());
}

}  // namespace satchel
