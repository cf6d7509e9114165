// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What a guest may send as a FUSE message. libfuse trusts the kernel: it takes lengths and names
// in a message as they are. A guest's kernel is a stranger's, so a message that comes from one is
// looked at here first. No Python in here, and nothing of libfuse.
#ifndef SATCHEL_SHARES_FUSE_MESSAGE_H_
#define SATCHEL_SHARES_FUSE_MESSAGE_H_

#include <cstddef>
#include <cstdint>

namespace satchel {

// What a relay answers a notification with, once its kernel has taken it: a header without a body.
// Its `unique` is how many notifications the relay has had, this one included.
constexpr uint32_t kNotifiedOpcode = 0x4e4f5446;

constexpr uint32_t kMaxPayload = 1 << 20;               // of a READ, a WRITE, a READDIR
constexpr uint32_t kMaxMessage = kMaxPayload + 0x1000;  // as libfuse's buffer
constexpr uint32_t kSlack = 0x200;                      // zeros after a message

enum class Verdict : uint8_t {
  kPass,      // libfuse may have it
  kNoReply,   // libfuse may have it, and no reply will follow
  kInit,      // the first message of a session
  kNotified,  // for the stream itself
  kUnknown,   // well formed, but nothing that is done here: ENOSYS
  kBad,       // not to be shown to libfuse: EINVAL
};

// `message` has at least a whole header, and is `size` bytes long.
Verdict CheckMessage(const void* message, size_t size);

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_MESSAGE_H_
