// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests of a preloaded program to the node's process: docs/formats/preload.md, and
// shares/preload/messages.py at the other end. One connection is used by one thread at a time.
#ifndef SATCHEL_SHARES_PRELOAD_LINE_H_
#define SATCHEL_SHARES_PRELOAD_LINE_H_

#include <stdint.h>

#include <string>

namespace satchel::preload {

enum class Op : uint32_t {
  kOpen = 1,
  kRead = 2,
  kWrite = 3,
  kStat = 4,
  kStatFile = 5,
  kFlush = 6,
  kSync = 7,
  kMode = 8,
  kOwner = 9,
  kSize = 10,
  kTimes = 11,
  kList = 12,
  kMakeFolder = 13,
  kRemoveFolder = 14,
  kUnlink = 15,
  kRename = 16,
  kLink = 17,
  kSymlink = 18,
  kReadLink = 19,
  kMark = 20,
  kLock = 21,
  kAllocate = 22,
};

// Numbers mean what the operation says; `file` is 0 where `path` says which file.
struct Request {
  Op op;
  uint64_t file = 0;
  int64_t first = 0;
  int64_t second = 0;
  uint32_t flags = 0;
  std::string path = {};
  std::string data = {};
};

struct Reply {
  int error = 0;  // errno
  int64_t value = 0;
  std::string data = {};
};

// What an operation gave. EIO where the node is not reached for 30 seconds, or has ended while it
// did what must not be done twice.
Reply Ask(const Request& request);

// Whether the descriptor is one of this library's own connections; programs do not close those.
bool IsLine(int fd);

}  // namespace satchel::preload

#endif  // SATCHEL_SHARES_PRELOAD_LINE_H_
