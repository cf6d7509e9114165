// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Lists of folders. A DIR of the share's is this library's own; programs know nothing of what is
// in one.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "shares/preload/files.h"
#include "shares/preload/place.h"

namespace satchel::preload {
namespace {

constexpr uint64_t kMagic = 0x5a7c4e1d0f01de25;  // no descriptor and lock, as a real DIR begins

struct Listing {
  uint64_t magic = kMagic;
  int fd = -1;
  std::string below;
  std::vector<dirent64> entries;
  size_t next = 0;
};

Listing* ListingOf(DIR* folder) {
  uint64_t magic = 0;
  memcpy(&magic, folder, sizeof magic);
  return magic == kMagic ? reinterpret_cast<Listing*>(folder) : nullptr;
}

void Add(Listing* listing, uint64_t file, unsigned char kind, const char* name, size_t size) {
  dirent64 entry = {};
  entry.d_ino = file;
  entry.d_type = kind;
  entry.d_reclen = sizeof entry;
  entry.d_off = static_cast<off64_t>(listing->entries.size() + 1);
  memcpy(entry.d_name, name, std::min(size, sizeof entry.d_name - 1));
  listing->entries.push_back(entry);
}

// 0 or an errno.
int Fill(Listing* listing) {
  const Reply reply = Ask({Op::kList, 0, 0, 0, 0, listing->below});
  if (reply.error != 0) return reply.error;
  listing->entries.clear();
  listing->next = 0;
  const char* at = reply.data.data();
  const char* const end = at + reply.data.size();
  constexpr size_t kHead = sizeof(uint64_t) + 2;
  while (end - at >= static_cast<ptrdiff_t>(kHead)) {
    uint64_t file = 0;
    memcpy(&file, at, sizeof file);
    const unsigned char kind = static_cast<unsigned char>(at[8]);
    const size_t size = static_cast<unsigned char>(at[9]);
    if (end - at < static_cast<ptrdiff_t>(kHead + size)) return EIO;
    Add(listing, file, kind, at + kHead, size);
    at += kHead + size;
  }
  return 0;
}

DIR* Opened(int fd, const std::string& below) {
  Listing* const listing = new Listing;
  listing->fd = fd;
  listing->below = below;
  const int error = Fill(listing);
  if (error == 0) return reinterpret_cast<DIR*>(listing);
  delete listing;
  errno = error;
  return nullptr;
}

}  // namespace
}  // namespace satchel::preload

using namespace satchel::preload;  // NOLINT: what follows is C's names

EXPORT DIR* fdopendir(int fd) {
  std::string below;
  return FolderOf(fd, &below) ? Opened(fd, below) : NEXT(fdopendir)(fd);
}

EXPORT DIR* opendir(const char* path) {
  std::string below;
  if (!Below(AT_FDCWD, path, &below)) return NEXT(opendir)(path);
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* const folder = Opened(fd, below);
  if (folder == nullptr) {
    const int error = errno;
    close(fd);
    errno = error;
  }
  return folder;
}

EXPORT dirent64* readdir64(DIR* folder) {
  Listing* const listing = ListingOf(folder);
  if (listing == nullptr) return NEXT(readdir64)(folder);
  return listing->next < listing->entries.size() ? &listing->entries[listing->next++] : nullptr;
}

static_assert(sizeof(dirent) == sizeof(dirent64), "one is the other");
EXPORT dirent* readdir(DIR* folder) {
  if (ListingOf(folder) == nullptr) return NEXT(readdir)(folder);
  return reinterpret_cast<dirent*>(readdir64(folder));
}

EXPORT int closedir(DIR* folder) {
  Listing* const listing = ListingOf(folder);
  if (listing == nullptr) return NEXT(closedir)(folder);
  const int fd = listing->fd;
  listing->magic = 0;
  delete listing;
  return close(fd);
}

EXPORT void rewinddir(DIR* folder) noexcept {
  Listing* const listing = ListingOf(folder);
  if (listing == nullptr) return NEXT(rewinddir)(folder);
  Fill(listing);
}

EXPORT void seekdir(DIR* folder, long place) noexcept {
  Listing* const listing = ListingOf(folder);
  if (listing == nullptr) return NEXT(seekdir)(folder, place);
  listing->next = std::min(static_cast<size_t>(place), listing->entries.size());
}

EXPORT long telldir(DIR* folder) noexcept {
  Listing* const listing = ListingOf(folder);
  return listing == nullptr ? NEXT(telldir)(folder) : static_cast<long>(listing->next);
}

EXPORT int dirfd(DIR* folder) noexcept {
  Listing* const listing = ListingOf(folder);
  return listing == nullptr ? NEXT(dirfd)(folder) : listing->fd;
}
