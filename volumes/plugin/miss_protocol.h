// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The miss protocol: how the nbdkit plugin asks the daemon for absent blocks, over a Unix stream
// socket. Described in docs/formats/block-map.md; the daemon's end is volumes/misses.py.
//
// The plugin connects, sends one request, waits for its reply, and may then send the next one over
// the same connection. A daemon that cannot read a request closes the connection. When a
// connection ends before the reply, the plugin asks again over a new one: a request may be repeated
// and asking twice does no harm.
//
// All integers are little-endian.
#ifndef SATCHEL_VOLUMES_PLUGIN_MISS_PROTOCOL_H_
#define SATCHEL_VOLUMES_PLUGIN_MISS_PROTOCOL_H_

#include <cstdint>

namespace satchel {

constexpr uint32_t kMissRequestMagic = 0x51544153;  // "SATQ"
constexpr uint32_t kMissReplyMagic = 0x50544153;    // "SATP"
constexpr uint32_t kMissContentMagic = 0x43544153;  // "SATC"
constexpr uint32_t kMissLimit = 256;                // blocks in one request, 1 MiB

#pragma pack(push, 1)
struct MissRequest {
  uint32_t magic;     //  0
  uint32_t volume;    //  4  index of the volume in the order of the plugin's volume= settings
  uint64_t first;     //  8  first block
  uint32_t count;     // 16  blocks, 1 to kMissLimit
  uint32_t reserved;  // 20  zero
};

struct MissReply {
  uint32_t magic;   // 0
  uint32_t status;  // 4  0: none of the blocks is absent any more; else a Linux errno
};
// With kMissContentMagic the status is 0, the blocks stay absent, and their content follows: the
// daemon has no room to keep it.
#pragma pack(pop)
static_assert(sizeof(MissRequest) == 24, "a miss request is 24 bytes");
static_assert(sizeof(MissReply) == 8, "a miss reply is 8 bytes");

}  // namespace satchel

#endif  // SATCHEL_VOLUMES_PLUGIN_MISS_PROTOCOL_H_
