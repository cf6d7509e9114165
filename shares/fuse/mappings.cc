// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/mappings.h"

#include <linux/fuse.h>
#include <string.h>

#include <cstdint>

namespace satchel {
namespace {

constexpr uint32_t kDirectMappings = 1U << 4;  // in flags2: bit 36 of both

size_t SizeOf(const iovec* parts, int count) {
  size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  return size;
}

}  // namespace

bool OffersMappings(const void* message, size_t size) {
  fuse_in_header head;
  fuse_init_in init;
  if (size < sizeof(head) + sizeof(init)) return false;
  memcpy(&head, message, sizeof(head));
  if (head.opcode != FUSE_INIT) return false;
  memcpy(&init, static_cast<const char*>(message) + sizeof(head), sizeof(init));
  return (init.flags & FUSE_INIT_EXT) != 0 && (init.flags2 & kDirectMappings) != 0;
}

bool IsInitReply(const iovec* parts, int count) {
  fuse_out_header head;
  if (count < 1 || parts[0].iov_len < sizeof(head)) return false;
  memcpy(&head, parts[0].iov_base, sizeof(head));
  return head.unique != 0 && head.error == 0 &&
         SizeOf(parts, count) == sizeof(head) + sizeof(fuse_init_out);
}

std::vector<char> WithMappings(const iovec* parts, int count) {
  std::vector<char> reply;
  reply.reserve(SizeOf(parts, count));
  for (int i = 0; i < count; ++i) {
    const char* const part = static_cast<const char*>(parts[i].iov_base);
    reply.insert(reply.end(), part, part + parts[i].iov_len);
  }
  fuse_init_out init;
  memcpy(&init, reply.data() + sizeof(fuse_out_header), sizeof(init));
  init.flags |= FUSE_INIT_EXT;
  init.flags2 |= kDirectMappings;
  memcpy(reply.data() + sizeof(fuse_out_header), &init, sizeof(init));
  return reply;
}

}  // namespace satchel
