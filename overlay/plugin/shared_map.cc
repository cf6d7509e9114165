// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "overlay/plugin/shared_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace satchel {
namespace {

static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t) &&
                  std::atomic<uint64_t>::is_always_lock_free,
              "an entry is one word that two processes share");

uint64_t MapSize(uint64_t blocks) { return kBlockMapHeaderSize + blocks * sizeof(uint64_t); }

}  // namespace

Status SharedMap::Open(const std::string& path, uint64_t blocks, std::unique_ptr<SharedMap>* map) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno("cannot open " + path, errno);
  struct stat info;
  if (fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < MapSize(blocks)) {
    close(fd);
    return Status::Make(Kind::kDamaged, "cannot map " + path, "it is too short");
  }
  void* base = mmap(nullptr, MapSize(blocks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);
  if (base == MAP_FAILED) return Status::FromErrno("cannot map " + path, error);
  std::unique_ptr<SharedMap> mapped(new SharedMap(base, blocks));
  uint64_t stored = 0;
  std::memcpy(&stored, static_cast<const char*>(base) + sizeof kBlockMapMagic, sizeof stored);
  if (std::memcmp(base, kBlockMapMagic, sizeof kBlockMapMagic) != 0 || stored != blocks) {
    return Status::Make(Kind::kDamaged, "cannot map " + path,
                        "it is no block map of " + std::to_string(blocks) + " blocks");
  }
  *map = std::move(mapped);
  return {};
}

SharedMap::SharedMap(void* base, uint64_t blocks)
    : base_(base),
      blocks_(blocks),
      entries_(reinterpret_cast<std::atomic<uint64_t>*>(static_cast<char*>(base) +
                                                        kBlockMapHeaderSize)) {}

SharedMap::~SharedMap() { munmap(base_, MapSize(blocks_)); }

void SharedMap::MarkDirty(uint64_t first, uint64_t count) {
  constexpr uint64_t kDirtyWord = EncodeEntry(BlockEntry{BlockState::kDirty, 0, 0, 0});
  for (uint64_t block = first; block < first + count; ++block) {
    entries_[block].store(kDirtyWord, std::memory_order_release);
  }
}

}  // namespace satchel
