// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A guest's FUSE message. What passes is read as libfuse reads it: names end inside of it, and data
// is as long as it says.
#include <linux/fuse.h>

#include <cstring>
#include <vector>

#include "shares/fuse/message.h"
#include "tests/native/fuzz/memory_file.h"

using satchel::fuzz::Require;

static size_t NameLength(const std::vector<char>& message, size_t at) {
  Require(at < message.size());
  const void* const end = std::memchr(&message[at], 0, message.size() - at);
  Require(end != nullptr);
  return static_cast<size_t>(static_cast<const char*>(end) - &message[at]);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(fuse_in_header)) return 0;
  std::vector<char> message(data, data + size);
  const auto length = static_cast<uint32_t>(size);
  std::memcpy(message.data(), &length, sizeof length);
  fuse_in_header head;
  std::memcpy(&head, message.data(), sizeof head);
  if (satchel::CheckMessage(message.data(), size) != satchel::Verdict::kPass) return 0;
  size_t at = sizeof head;
  if (head.opcode == FUSE_RENAME2) at += sizeof(fuse_rename2_in);
  if (head.opcode == FUSE_LOOKUP || head.opcode == FUSE_SYMLINK || head.opcode == FUSE_RENAME2) {
    at += NameLength(message, at) + 1;
    if (head.opcode != FUSE_LOOKUP) at += NameLength(message, at) + 1;
    Require(at == size);
  }
  if (head.opcode == FUSE_WRITE) {
    fuse_write_in in;
    Require(size >= at + sizeof in);
    std::memcpy(&in, &message[at], sizeof in);
    Require(in.size == size - at - sizeof in && in.size <= satchel::kMaxPayload);
  }
  return 0;
}
