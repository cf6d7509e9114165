// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Reading a pack from front to back: how an index is rebuilt, a tail recovered, a store verified.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_SCAN_H_
#define SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_SCAN_H_

#include <cstdint>
#include <functional>

#include "chunkstore/core/format/frame.h"
#include "chunkstore/core/format/record.h"
#include "chunkstore/core/os/env.h"

namespace satchel {

struct ScanVisitor {
  // A whole record at `offset`; its view dies on return. An error ends the scan. `chained` says
  // that everything before it, from the beginning of the scan, was whole. One that is not
  // may have been planted by a guest in the content of a damaged record: check its hashes.
  std::function<Status(uint64_t offset, const RecordView& record, bool chained)> on_record;

  // The same for a frame. It has no names to lie about, so it does not matter who planted it.
  std::function<Status(uint64_t offset, const FrameView& frame)> on_frame;

  // Bytes [begin, end) are no record and no frame, for the reason `why`. An error ends the scan.
  std::function<Status(uint64_t begin, uint64_t end, const std::string& why)> on_garbage;
};

// kDamaged unless the file begins with the header of a pack; kUnsupported for another version.
Status CheckPackHeader(File* file);

// Visits what is in [begin, end), cut to the end of the file, in order. After bytes that are no
// record and no frame it goes on at the next place where a whole one begins. What follows the first
// kPackLimit bytes is not read: a stranger's sparse file may claim any size.
Status ScanPack(File* file, uint64_t begin, uint64_t end, const ScanVisitor& visitor);

// Whether a range that holds no record is zeros only: a hole, where records had their place and
// were never written.
Status IsHole(File* file, uint64_t begin, uint64_t end, bool* hole);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACKS_PACK_SCAN_H_
