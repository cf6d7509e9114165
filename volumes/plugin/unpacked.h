// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks of frames, as they were before they were compressed, kept for whoever reads them next:
// another read of the guest that has dropped them, and the next machine on the same chunks, which
// is what a home resumes all day: copies that rehearse a checkpoint, services that come back.
//
// A block of a frame costs 20 us of decompression, and from here 2. The file belongs to one program
// on one store, has no name, and is gone with the last process that has it open, so it is no
// format: nothing in it outlives the numbers of packs that it goes by, which that store never uses
// again. All plugins of the program share it. Its pages are the system's to write out and to drop.
//
// It is a table of sets, each of kWays slots. A slot is a tag (the word of the location,
// location.h), a checksum and 4096 bytes:
//
//   tags       8 bytes a slot   0: empty; bit 0: it was read since; bit 1: being written
//   checksums  8 bytes a slot   XXH3-64 of the block
//   blocks     4096 bytes a slot, from a multiple of 4096 on
//
// Tags and checksums are mapped, blocks are read and written. Nobody waits for anybody:
//
//   * A writer takes a slot by compare-and-swap of its tag to "being written", writes the block and
//     the checksum, and then the tag. Whoever does not get a slot goes without.
//   * A reader finds the tag, reads the block, and looks whether the tag is the same and the
//     checksum agrees. If not, it was not here.
//
// In a full set the slot goes that nobody has read since somebody last looked for one (clock).
#ifndef SATCHEL_VOLUMES_PLUGIN_UNPACKED_H_
#define SATCHEL_VOLUMES_PLUGIN_UNPACKED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "chunkstore/core/format/location.h"
#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/status.h"

namespace satchel {

// Thread-safe, and safe with other processes on the same file.
class Unpacked {
 public:
  // The file's size says how many slots it has; one that has been made just now is all zero. kIo
  // and so on when it cannot be opened or mapped; kDamaged when it is too small for one set.
  static Status Open(const std::string& path, std::unique_ptr<Unpacked>* unpacked);
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  // Copies the block that was kept of that place to the 4096 bytes at `block`; false if there is
  // none, and then the bytes there mean nothing.
  bool Find(const Location& at, uint8_t* block);

  // Keeps a block, unless another thread is in the way or the file system is full.
  void Keep(const Location& at, const uint8_t* block);

 private:
  static constexpr uint64_t kWays = 8;
  static constexpr uint64_t kRead = 1;
  static constexpr uint64_t kWriting = 2;

  Unpacked(std::unique_ptr<File> file, void* base, uint64_t sets);

  uint64_t SetOf(uint64_t word) const;
  uint64_t SlotFor(uint64_t first, uint64_t* tag);
  uint64_t Offset(uint64_t slot) const { return blocks_at_ + slot * kBlockSize; }

  const std::unique_ptr<File> file_;
  void* const base_;
  const uint64_t sets_;
  const uint64_t blocks_at_;
  std::atomic<uint64_t>* const tags_;
  std::atomic<uint64_t>* const checksums_;
};

}  // namespace satchel

#endif  // SATCHEL_VOLUMES_PLUGIN_UNPACKED_H_
