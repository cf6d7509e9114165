// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/volume/block_map_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "chunkstore/core/format/table.h"

namespace satchel {
namespace {

static_assert(sizeof(std::atomic<uint64_t>) == 8 && std::atomic<uint64_t>::is_always_lock_free,
              "entries are shared with another process");

struct Header {
  char magic[8];
  uint64_t blocks;
  uint64_t touches;
  uint32_t space_requests;
  uint32_t reserved;
};

Status WriteHeader(int fd, const std::string& path, uint64_t blocks) {
  Header header{};
  std::memcpy(header.magic, kBlockMapMagic, sizeof header.magic);
  header.blocks = blocks;
  const auto size = static_cast<off_t>(BlockMapSize(blocks));
  if (ftruncate(fd, size) != 0) return Status::FromErrno("cannot resize " + path, errno);
  // All of it has its place before it is mapped: a mapped page for which there is none when it is
  // touched, for a count too, ends the process with SIGBUS.
  const int refused = posix_fallocate(fd, 0, size);
  if (refused != 0 && refused != EOPNOTSUPP) {
    return Status::FromErrno("cannot make room for " + path, refused);
  }
  if (pwrite(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header)) return {};
  return Status::FromErrno("cannot write " + path, errno);
}

constexpr size_t kPageBytes = 4096;

}  // namespace

std::string PlacesPath(const std::string& map_path) { return map_path + ".places"; }

PlacesFile::PlacesFile(int fd, void* base, size_t size)
    : fd_(fd),
      base_(base),
      size_(size),
      words_(static_cast<std::atomic<uint64_t>*>(base)),
      backed_(size / kPageBytes + 1) {}

PlacesFile::~PlacesFile() {
  munmap(base_, std::max<size_t>(size_, 1));
  if (fd_ >= 0) close(fd_);
}

Status PlacesFile::Create(const std::string& path, uint64_t blocks,
                          std::unique_ptr<PlacesFile>* places) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return Status::FromErrno("cannot make " + path, errno);
  Status status;
  if (ftruncate(fd, static_cast<off_t>(blocks * sizeof(uint64_t))) != 0) {
    status = Status::FromErrno("cannot resize " + path, errno);
    close(fd);
  } else {
    status = Map(fd, path, /*writable=*/true, places);
  }
  if (!status.ok()) unlink(path.c_str());
  return status;
}

Status PlacesFile::Open(const std::string& path, bool writable,
                        std::unique_ptr<PlacesFile>* places) {
  const int fd = open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno("cannot open " + path, errno);
  return Map(fd, path, writable, places);
}

// Takes `fd`.
Status PlacesFile::Map(int fd, const std::string& path, bool writable,
                       std::unique_ptr<PlacesFile>* places) {
  struct stat info;
  Status status;
  void* base = MAP_FAILED;
  if (fstat(fd, &info) != 0) {
    status = Status::FromErrno("cannot open " + path, errno);
  } else {
    const size_t size = std::max<size_t>(static_cast<size_t>(info.st_size), 1);
    base = mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) status = Status::FromErrno("cannot map " + path, errno);
  }
  if (!writable || !status.ok()) close(fd);
  if (!status.ok()) return status;
  const auto bytes = static_cast<size_t>(info.st_size) / sizeof(uint64_t) * sizeof(uint64_t);
  places->reset(new PlacesFile(writable ? fd : -1, base, bytes));
  return {};
}

bool PlacesFile::Store(uint64_t block, uint64_t word) {
  const uint64_t page = block * sizeof(uint64_t) / kPageBytes;
  if (!backed_[page]) {
    const uint64_t from = page * kPageBytes;
    const uint64_t count = std::min<uint64_t>(kPageBytes, size_ - from);
    const int refused = posix_fallocate(fd_, static_cast<off_t>(from), static_cast<off_t>(count));
    if (refused != 0 && refused != EOPNOTSUPP) return false;
    backed_[page] = true;
  }
  words_[block].store(word, std::memory_order_release);
  return true;
}

BlockMap::BlockMap(void* base, size_t size, uint64_t blocks)
    : base_(base),
      size_(size),
      blocks_(blocks),
      touch_count_(reinterpret_cast<std::atomic<uint64_t>*>(static_cast<char*>(base) +
                                                            offsetof(Header, touches))),
      space_requests_(reinterpret_cast<std::atomic<uint32_t>*>(static_cast<char*>(base) +
                                                               offsetof(Header, space_requests))),
      entries_(
          reinterpret_cast<std::atomic<uint64_t>*>(static_cast<char*>(base) + kBlockMapHeaderSize)),
      touches_(reinterpret_cast<std::atomic<uint32_t>*>(entries_ + blocks)),
      handle_(std::make_shared<BlockMapHandle>()) {
  handle_->map = this;
}

BlockMap::~BlockMap() {
  {
    const MutexLock lock(&handle_->mutex);
    handle_->map = nullptr;
  }
  munmap(base_, size_);
}

Status BlockMap::Create(const std::string& path, uint64_t blocks, std::unique_ptr<BlockMap>* map) {
  if (blocks > kMaxVolumeSize / kBlockSize) {
    return Status::Make(Kind::kUsage, "cannot make the block map " + path, "too many blocks");
  }
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return Status::FromErrno("cannot make the block map " + path, errno);
  Status status = WriteHeader(fd, path, blocks);
  if (status.ok()) status = Map(fd, path, map);
  close(fd);
  if (status.ok()) status = PlacesFile::Create(PlacesPath(path), blocks, &(*map)->places_);
  if (status.ok()) return status;
  map->reset();
  unlink(path.c_str());
  return status;
}

Status BlockMap::Open(const std::string& path, std::unique_ptr<BlockMap>* map) {
  std::unique_ptr<BlockMap> opened;
  SATCHEL_RETURN_IF_ERROR(OpenShared(path, &opened));
  const std::string places = PlacesPath(path);
  SATCHEL_RETURN_IF_ERROR(PlacesFile::Open(places, /*writable=*/true, &opened->places_));
  if (opened->places_->blocks() != opened->blocks()) {
    return Status::Make(Kind::kDamaged, "cannot open " + places, "it belongs to another map");
  }
  *map = std::move(opened);
  return {};
}

Status BlockMap::OpenShared(const std::string& path, std::unique_ptr<BlockMap>* map) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return Status::FromErrno("cannot open the block map " + path, errno);
  const Status status = Map(fd, path, map);
  close(fd);
  return status;
}

Status BlockMap::Map(int fd, const std::string& path, std::unique_ptr<BlockMap>* map) {
  struct stat info;
  if (fstat(fd, &info) != 0) return Status::FromErrno("cannot open the block map " + path, errno);
  const auto size = static_cast<uint64_t>(info.st_size);
  Header header{};
  if (pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      std::memcmp(header.magic, kBlockMapMagic, sizeof header.magic) != 0 ||
      header.blocks > kMaxVolumeSize / kBlockSize || size != BlockMapSize(header.blocks)) {
    return Status::Make(Kind::kDamaged, "cannot open the block map " + path,
                        "it is not a block map, or not of the size that its header says");
  }
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return Status::FromErrno("cannot map the block map " + path, errno);
  map->reset(new BlockMap(base, size, header.blocks));
  return {};
}

bool BlockMap::Replace(uint64_t block, BlockState expected, const BlockEntry& entry) {
  uint64_t word = EncodeEntry(BlockEntry{expected, {}});
  const uint64_t wanted = EncodeEntry(entry);
  if (places_ == nullptr || entry.state != BlockState::kPacked) {
    return entries_[block].compare_exchange_strong(word, wanted, std::memory_order_acq_rel);
  }
  // A reader that sees the entry finds the place. A place of an entry that became dirty meanwhile
  // stays, and nothing leads to it.
  const MutexLock lock(&placing_);
  if (entries_[block].load(std::memory_order_acquire) != word) return false;
  if (!places_->Store(block, wanted)) return false;
  return entries_[block].compare_exchange_strong(word, wanted, std::memory_order_acq_rel);
}

uint64_t BlockMap::Repoint(uint32_t pack, const Moves& moves) {
  constexpr auto kPacked = static_cast<uint64_t>(BlockState::kPacked);
  uint64_t left = 0;
  for (uint64_t i = 0; i < blocks_; ++i) {
    const uint64_t word = Word(i);
    if ((word & 3) != kPacked || DecodeLocation(word).pack != pack) continue;
    const auto found = moves.find(word & ~uint64_t{3});
    // A write that comes first makes it dirty, and then it does not lead there any more.
    if (found == moves.end() || !Move(i, word, found->second | kPacked)) ++left;
  }
  return left;
}

// Points an entry elsewhere that leads to `from`. false: the file system has no room for it.
bool BlockMap::Move(uint64_t block, uint64_t from, uint64_t to) {
  const MutexLock lock(&placing_);
  if (places_ != nullptr && places_->Load(block) == from && !places_->Store(block, to)) {
    return false;
  }
  entries_[block].compare_exchange_strong(from, to, std::memory_order_acq_rel);
  return true;
}

BlockMap::Counts BlockMap::Count(uint64_t first, uint64_t count) const {
  Counts counts{};
  for (uint64_t i = first; i < first + count; ++i) {
    ++counts.by_state[entries_[i].load(std::memory_order_relaxed) & 3];
  }
  return counts;
}

// Of two threads that touch it at once the first one's number stays.
void BlockMap::TouchFirst(uint64_t block) {
  const uint64_t last = touch_count_->fetch_add(1, std::memory_order_relaxed);
  const auto number = static_cast<uint32_t>(std::min<uint64_t>(last + 1, kForeseen - 1));
  uint32_t word = touches_[block].load(std::memory_order_relaxed);
  while ((word & ~kForeseen) == 0 &&
         !touches_[block].compare_exchange_weak(word, word | number, std::memory_order_relaxed)) {
  }
}

void BlockMap::Foresee(uint64_t first, uint64_t count) {
  for (uint64_t i = first; i < first + count; ++i) {
    uint32_t untouched = 0;
    if (Load(i).state != BlockState::kAbsent) continue;
    touches_[i].compare_exchange_strong(untouched, kForeseen, std::memory_order_relaxed);
  }
}

BlockMap::Foresight BlockMap::CountForesight() const {
  Foresight found{};
  for (uint64_t i = 0; i < blocks_; ++i) {
    const uint32_t word = touches_[i].load(std::memory_order_relaxed);
    const bool touched = (word & ~kForeseen) != 0;
    const bool foreseen = (word & kForeseen) != 0;
    found.touched += touched ? 1 : 0;
    found.foreseen += foreseen ? 1 : 0;
    found.used += touched && foreseen ? 1 : 0;
  }
  return found;
}

std::vector<uint64_t> BlockMap::Touched(uint32_t but) const {
  std::vector<std::pair<uint32_t, uint64_t>> found;
  if (but > 0 && touch_count_->load(std::memory_order_relaxed) <= but) return {};
  for (uint64_t i = 0; i < blocks_; ++i) {
    const uint32_t number = touches_[i].load(std::memory_order_relaxed) & ~kForeseen;
    if (number > but) found.emplace_back(number, i);
  }
  std::sort(found.begin(), found.end());
  std::vector<uint64_t> blocks;
  blocks.reserve(found.size());
  for (const auto& [number, block] : found) blocks.push_back(block);
  return blocks;
}

}  // namespace satchel
