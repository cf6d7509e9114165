// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/media/media_index.h"

#include <algorithm>
#include <cstring>

#include "chunkstore/core/format/hash.h"

namespace satchel {
namespace {

template <typename T>
void Put(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T Take(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

Status Damaged(const char* why) { return Status::Make(Kind::kDamaged, "bad pack index", why); }

}  // namespace

std::string EncodeMediaIndex(std::vector<MediaIndexEntry>* entries, uint64_t pack_size) {
  std::sort(entries->begin(), entries->end(),
            [](const auto& a, const auto& b) { return a.ref < b.ref; });
  std::string out;
  out.reserve(kMediaIndexHeaderSize + entries->size() * kMediaIndexEntrySize + 8);
  out.append(kMediaIndexMagic, sizeof kMediaIndexMagic);
  Put(kMediaIndexVersion, &out);
  Put(static_cast<uint32_t>(entries->size()), &out);
  Put(pack_size, &out);
  Put(uint64_t{0}, &out);
  for (const MediaIndexEntry& entry : *entries) {
    Put(entry.ref, &out);
    Put(entry.offset, &out);
    Put(entry.length, &out);
    Put(uint16_t{0}, &out);
  }
  Put(Checksum64(out.data(), out.size()), &out);
  return out;
}

Status DecodeMediaIndex(const std::string& data, std::vector<MediaIndexEntry>* entries,
                        uint64_t* pack_size) {
  if (data.size() < kMediaIndexHeaderSize + 8) return Damaged("it is too short");
  const char* at = data.data();
  if (std::memcmp(at, kMediaIndexMagic, sizeof kMediaIndexMagic) != 0)
    return Damaged("wrong magic");
  const auto version = Take<uint32_t>(at + 8);
  if (version != kMediaIndexVersion) {
    return Status::Make(Kind::kUnsupported, "cannot read a pack index",
                        "its version is " + std::to_string(version));
  }
  const uint64_t count = Take<uint32_t>(at + 12);
  *pack_size = Take<uint64_t>(at + 16);
  const size_t body = data.size() - 8;
  if (body != kMediaIndexHeaderSize + count * kMediaIndexEntrySize) {
    return Damaged("its size does not fit its count");
  }
  if (Take<uint64_t>(at + body) != Checksum64(at, body)) {
    return Damaged("the checksum does not agree");
  }
  if (Take<uint64_t>(at + 24) != 0) {
    return Status::Make(Kind::kUnsupported, "cannot read a pack index",
                        "a reserved field is not zero");
  }
  entries->resize(count);
  at += kMediaIndexHeaderSize;
  for (MediaIndexEntry& entry : *entries) {
    entry.ref = Take<ChunkRef>(at);
    entry.offset = Take<uint32_t>(at + kChunkRefSize);
    entry.length = Take<uint16_t>(at + kChunkRefSize + 4);
    at += kMediaIndexEntrySize;
  }
  return {};
}

}  // namespace satchel
