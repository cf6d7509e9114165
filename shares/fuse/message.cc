// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/message.h"

#include <linux/fuse.h>
#include <string.h>

namespace satchel {
namespace {

constexpr size_t kMaxName = 255;
constexpr size_t kMaxTarget = 4095;
constexpr uint32_t kMinMinor = 31;  // Linux 5.4: structures have had their present sizes for long

struct Body {
  const char* data;
  size_t size;

  template <typename Struct>
  bool Take(Struct* out) {
    if (size < sizeof(Struct)) return false;
    memcpy(out, data, sizeof(Struct));
    data += sizeof(Struct);
    size -= sizeof(Struct);
    return true;
  }

  // A string with its NUL, neither empty nor longer than `most`.
  bool TakeString(size_t most) {
    const void* const end = memchr(data, 0, size);
    if (end == nullptr) return false;
    const size_t length = static_cast<size_t>(static_cast<const char*>(end) - data);
    data += length + 1;
    size -= length + 1;
    return length > 0 && length <= most;
  }

  // One name, of something in the folder itself.
  bool TakeName() {
    const char* const name = data;
    return TakeString(kMaxName) && strchr(name, '/') == nullptr && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
  }

  bool Ends() const { return size == 0; }
};

// The structure alone.
template <typename Struct>
bool Only(Body body) {
  Struct in;
  return body.Take(&in) && body.Ends();
}

// The structure, and a name.
template <typename Struct>
bool Named(Body body) {
  Struct in;
  return body.Take(&in) && body.TakeName() && body.Ends();
}

bool Symlink(Body body) { return body.TakeName() && body.TakeString(kMaxTarget) && body.Ends(); }

template <typename Struct>
bool Rename(Body body) {
  Struct in;
  return body.Take(&in) && body.TakeName() && body.TakeName() && body.Ends();
}

bool Read(Body body) {
  fuse_read_in in;
  return body.Take(&in) && body.Ends() && in.size <= kMaxPayload &&
         in.offset <= INT64_MAX - kMaxPayload;
}

bool Write(Body body) {
  fuse_write_in in;
  return body.Take(&in) && in.size == body.size && in.size <= kMaxPayload &&
         in.offset <= INT64_MAX - kMaxPayload;
}

bool Allocate(Body body) {
  fuse_fallocate_in in;
  return body.Take(&in) && body.Ends() && in.offset <= INT64_MAX &&
         in.length <= INT64_MAX - in.offset;
}

bool Seek(Body body) {
  fuse_lseek_in in;
  return body.Take(&in) && body.Ends() && in.offset <= INT64_MAX;
}

bool Lock(Body body) {
  fuse_lk_in in;
  return body.Take(&in) && body.Ends() && in.lk.start <= in.lk.end && in.lk.end <= INT64_MAX &&
         in.lk.type <= 2;
}

bool BatchForget(Body body) {
  fuse_batch_forget_in in;
  return body.Take(&in) && body.size % sizeof(fuse_forget_one) == 0 &&
         in.count == body.size / sizeof(fuse_forget_one);
}

bool SetAttributes(Body body) {
  fuse_setattr_in in;
  return body.Take(&in) && body.Ends() && in.size <= INT64_MAX && in.atimensec < 1'000'000'000 &&
         in.mtimensec < 1'000'000'000 && in.ctimensec < 1'000'000'000;
}

bool Init(Body body) {
  fuse_init_in in = {};
  const size_t least = 16;  // before flags2
  if (body.size != least && body.size != sizeof(in)) return false;
  memcpy(&in, body.data, body.size);
  if (in.major != 7 || in.minor < kMinMinor) return false;
  return body.size == sizeof(in) || (in.flags & FUSE_INIT_EXT) == 0;
}

Verdict If(bool good) { return good ? Verdict::kPass : Verdict::kBad; }

// Of what names something in a folder, or nothing at all.
Verdict CheckName(uint32_t opcode, Body body) {
  switch (opcode) {
    case FUSE_LOOKUP:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
      return If(body.TakeName() && body.Ends());
    case FUSE_SYMLINK:
      return If(Symlink(body));
    case FUSE_MKNOD:
      return If(Named<fuse_mknod_in>(body));
    case FUSE_MKDIR:
      return If(Named<fuse_mkdir_in>(body));
    case FUSE_LINK:
      return If(Named<fuse_link_in>(body));
    case FUSE_CREATE:
      return If(Named<fuse_create_in>(body));
    case FUSE_RENAME:
      return If(Rename<fuse_rename_in>(body));
    case FUSE_RENAME2:
      return If(Rename<fuse_rename2_in>(body));
    default:
      return Verdict::kUnknown;
  }
}

Verdict CheckFile(uint32_t opcode, Body body) {
  switch (opcode) {
    case FUSE_GETATTR:
      return If(Only<fuse_getattr_in>(body));
    case FUSE_SETATTR:
      return If(SetAttributes(body));
    case FUSE_READLINK:
    case FUSE_STATFS:
      return If(body.Ends());
    case FUSE_OPEN:
    case FUSE_OPENDIR:
      return If(Only<fuse_open_in>(body));
    case FUSE_READ:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return If(Read(body));
    case FUSE_WRITE:
      return If(Write(body));
    case FUSE_FALLOCATE:
      return If(Allocate(body));
    case FUSE_LSEEK:
      return If(Seek(body));
    case FUSE_FLUSH:
      return If(Only<fuse_flush_in>(body));
    case FUSE_FSYNC:
    case FUSE_FSYNCDIR:
      return If(Only<fuse_fsync_in>(body));
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      return If(Only<fuse_release_in>(body));
    case FUSE_GETLK:
    case FUSE_SETLK:
    case FUSE_SETLKW:
      return If(Lock(body));
    default:
      return CheckName(opcode, body);
  }
}

}  // namespace

Verdict CheckMessage(const void* message, size_t size) {
  fuse_in_header head;
  memcpy(&head, message, sizeof(head));
  const Body body = {static_cast<const char*>(message) + sizeof(head), size - sizeof(head)};
  if (head.len != size) return Verdict::kBad;
  switch (head.opcode) {
    case FUSE_INIT:
      return Init(body) ? Verdict::kInit : Verdict::kBad;
    case FUSE_FORGET:
      return Only<fuse_forget_in>(body) ? Verdict::kNoReply : Verdict::kBad;
    case FUSE_BATCH_FORGET:
      return BatchForget(body) ? Verdict::kNoReply : Verdict::kBad;
    case FUSE_INTERRUPT:
      return Only<fuse_interrupt_in>(body) ? Verdict::kNoReply : Verdict::kBad;
    case kNotifiedOpcode:
      return body.Ends() ? Verdict::kNotified : Verdict::kBad;
    default:
      return CheckFile(head.opcode, body);
  }
}

}  // namespace satchel
