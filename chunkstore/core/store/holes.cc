// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/store/holes.h"

#include <algorithm>

#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/format/pack_format.h"
#include "chunkstore/core/format/record.h"

namespace satchel {
namespace {

constexpr uint64_t kWorthAHole = 4096;  // bytes: less may free no block of the disk

struct Hole {
  uint32_t begin;
  uint32_t end;
};

bool Before(const Location& a, const Location& b) { return a.offset < b.offset; }

Status ZeroHeaders(File* file, const std::vector<Location>& others,
                   const std::vector<Hole>& holes) {
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
Status FindHoles(File* file, std::vector<Location>* kept, uint64_t end, std::vector<Hole>* holes) {
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

// Bytes for which the file has room on the disk.
Status DataIn(File* file, uint64_t* bytes) {
  uint64_t begin = 0;
  uint64_t end = 0;
  *bytes = 0;
  do {
    SATCHEL_RETURN_IF_ERROR(file->NextData(end, &begin, &end));
    *bytes += end - begin;
  } while (end > begin);
  return {};
}

}  // namespace

Status MakeHoles(File* file, PackUse* use, uint64_t end, uint64_t* freed, uint64_t* left) {
  uint64_t before = 0;
  SATCHEL_RETURN_IF_ERROR(DataIn(file, &before));
  *left = before;
  std::vector<Hole> holes;
  SATCHEL_RETURN_IF_ERROR(FindHoles(file, &use->kept, end, &holes));
  if (holes.empty()) return {};
  std::sort(use->others.begin(), use->others.end(), Before);
  SATCHEL_RETURN_IF_ERROR(ZeroHeaders(file, use->others, holes));
  for (const Hole& hole : holes) {
    const Status status = file->PunchHole(hole.begin, hole.end - hole.begin);
    if (status.Is(Kind::kUnsupported)) return {};
    SATCHEL_RETURN_IF_ERROR(status);
  }
  SATCHEL_RETURN_IF_ERROR(file->Sync());
  SATCHEL_RETURN_IF_ERROR(DataIn(file, left));
  *freed += before - std::min(before, *left);
  return {};
}

}  // namespace satchel
