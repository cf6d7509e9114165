// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/media/media_index.h"

#include <algorithm>
#include <cstring>

#include "chunkstore/core/format/hash.h"

namespace satchel {
namespace {

template <typename T>
void PutField(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T TakeField(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

Status BadIndex(const char* why) { return Status::Make(Kind::kDamaged, "bad pack index", why); }

}  // namespace

std::string EncodeMediaIndex(std::vector<MediaIndexEntry>* entries, uint64_t pack_size) {
  std::sort(entries->begin(), entries->end(),
            [](const auto& a, const auto& b) { return a.ref < b.ref; });
  std::string out;
  out.reserve(kMediaIndexHeaderSize + entries->size() * kMediaIndexEntrySize + 8);
  out.append(kMediaIndexMagic, sizeof kMediaIndexMagic);
  PutField(kMediaIndexVersion, &out);
  PutField(static_cast<uint32_t>(entries->size()), &out);
  PutField(pack_size, &out);
  PutField(uint64_t{0}, &out);
  for (const MediaIndexEntry& entry : *entries) {
    PutField(entry.ref, &out);
    PutField(entry.offset, &out);
    PutField(entry.length, &out);
    PutField(uint16_t{0}, &out);
  }
  PutField(Checksum64(out.data(), out.size()), &out);
  return out;
}

Status DecodeMediaIndex(const std::string& data, std::vector<MediaIndexEntry>* entries,
                        uint64_t* pack_size) {
  if (data.size() < kMediaIndexHeaderSize + 8) return BadIndex("it is too short");
  const char* at = data.data();
  if (std::memcmp(at, kMediaIndexMagic, sizeof kMediaIndexMagic) != 0)
    return BadIndex("wrong magic");
  const auto version = TakeField<uint32_t>(at + 8);
  if (version != kMediaIndexVersion) {
    return Status::Make(Kind::kUnsupported, "cannot read a pack index",
                        "its version is " + std::to_string(version));
  }
  const uint64_t count = TakeField<uint32_t>(at + 12);
  *pack_size = TakeField<uint64_t>(at + 16);
  const size_t body = data.size() - 8;
  if (body != kMediaIndexHeaderSize + count * kMediaIndexEntrySize) {
    return BadIndex("its size does not fit its count");
  }
  if (TakeField<uint64_t>(at + body) != Checksum64(at, body)) {
    return BadIndex("the checksum does not agree");
  }
  if (TakeField<uint64_t>(at + 24) != 0) {
    return Status::Make(Kind::kUnsupported, "cannot read a pack index",
                        "a reserved field is not zero");
  }
  entries->resize(count);
  at += kMediaIndexHeaderSize;
  for (MediaIndexEntry& entry : *entries) {
    entry.ref = TakeField<ChunkRef>(at);
    entry.offset = TakeField<uint32_t>(at + kChunkRefSize);
    entry.length = TakeField<uint16_t>(at + kChunkRefSize + 4);
    at += kMediaIndexEntrySize;
  }
  return {};
}

}  // namespace satchel
