// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/media/media_commit.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "chunkstore/core/format/hash.h"

namespace satchel {
namespace {

constexpr char kSuffix[] = ".commit";
constexpr size_t kMinDigits = 6;
constexpr size_t kMaxDigits = 18;

template <typename T>
void Put(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Takes values off the front of what is left; `ok` goes false where there is too little.
class Reader {
 public:
  Reader(const char* data, size_t n) : at_(data), left_(n) {}

  template <typename T>
  T Take() {
    T value{};
    const std::string bytes = Take(sizeof value);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  std::string Take(size_t n) {
    if (n > left_) ok_ = false;
    if (!ok_) return {};
    std::string bytes(at_, n);
    at_ += n;
    left_ -= n;
    return bytes;
  }

  bool ok() const { return ok_; }
  size_t left() const { return left_; }

 private:
  const char* at_;
  size_t left_;
  bool ok_ = true;
};

Status BadCommit(const char* why) { return Status::Make(Kind::kDamaged, "bad commit file", why); }

bool IsPlain(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }

Status TakeFile(Reader* in, MediaFile* file) {
  file->size = in->Take<uint32_t>();
  const auto kind = in->Take<uint16_t>();
  const auto length = in->Take<uint16_t>();
  file->digest = in->Take<std::array<uint8_t, kDigestSize>>();
  file->path = in->Take(length);
  if (!in->ok()) return BadCommit("it is too short");
  if (kind != 0) return BadCommit("a file is of an unknown kind");
  return IsMediaPath(file->path) ? Status() : BadCommit("a path in it is none of a medium");
}

}  // namespace

std::string EncodeMediaCommit(const MediaCommit& commit) {
  std::string out(kMediaCommitMagic, sizeof kMediaCommitMagic);
  Put(kMediaCommitVersion, &out);
  Put(uint32_t{0}, &out);
  Put(commit.uuid, &out);
  Put(commit.generation, &out);
  Put(commit.created, &out);
  Put(static_cast<uint32_t>(commit.packs.size()), &out);
  Put(static_cast<uint32_t>(commit.files.size()), &out);
  Put(uint64_t{0}, &out);
  for (const MediaPack& pack : commit.packs) {
    Put(pack.number, &out);
    Put(pack.chunks, &out);
    Put(pack.size, &out);
  }
  for (const MediaFile& file : commit.files) {
    Put(file.size, &out);
    Put(uint16_t{0}, &out);
    Put(static_cast<uint16_t>(file.path.size()), &out);
    Put(file.digest, &out);
    out.append(file.path);
  }
  Put(Checksum64(out.data(), out.size()), &out);
  return out;
}

Status DecodeMediaCommit(const std::string& data, MediaCommit* commit) {
  if (data.size() < kMediaCommitHeaderSize + 8) return BadCommit("it is too short");
  const size_t body = data.size() - 8;
  uint64_t checksum;
  std::memcpy(&checksum, data.data() + body, sizeof checksum);
  if (std::memcmp(data.data(), kMediaCommitMagic, sizeof kMediaCommitMagic) != 0) {
    return BadCommit("wrong magic");
  }
  if (checksum != Checksum64(data.data(), body)) return BadCommit("the checksum does not agree");
  Reader in(data.data() + sizeof kMediaCommitMagic, body - sizeof kMediaCommitMagic);
  const auto version = in.Take<uint32_t>();
  const auto cipher = in.Take<uint32_t>();
  if (version != kMediaCommitVersion || cipher != 0) {
    return Status::Make(
        Kind::kUnsupported, "cannot read a commit file",
        cipher != 0 ? "the medium is encrypted" : "its version is " + std::to_string(version));
  }
  commit->uuid = in.Take<std::array<uint8_t, 16>>();
  commit->generation = in.Take<uint64_t>();
  commit->created = in.Take<uint64_t>();
  const auto packs = in.Take<uint32_t>();
  const auto files = in.Take<uint32_t>();
  if (in.Take<uint64_t>() != 0) {
    return Status::Make(Kind::kUnsupported, "cannot read a commit file",
                        "a reserved field is not zero");
  }
  if (packs > in.left() / kMediaCommitPackSize || files > in.left() / kMediaCommitFileSize) {
    return BadCommit("its counts do not fit its size");
  }
  commit->packs.resize(packs);
  for (MediaPack& pack : commit->packs) pack = in.Take<MediaPack>();
  commit->files.resize(files);
  for (MediaFile& file : commit->files) SATCHEL_RETURN_IF_ERROR(TakeFile(&in, &file));
  return in.left() == 0 ? Status() : BadCommit("bytes are left over");
}

bool IsMediaPath(const std::string& path) {
  const std::string folder = kMediaFilesFolder;
  if (path.size() > kMediaPathLimit || path.compare(0, folder.size(), folder) != 0) return false;
  const std::string name = path.substr(folder.size());
  const size_t dot = std::min(name.find('.'), name.size());
  const auto plain = [](auto begin, auto end) {
    return begin != end && std::all_of(begin, end, IsPlain);
  };
  const auto stem_end = name.begin() + static_cast<std::ptrdiff_t>(dot);
  return plain(name.begin(), stem_end) &&
         (stem_end == name.end() || plain(stem_end + 1, name.end()));
}

std::string MediaCommitName(uint64_t generation) {
  char name[40];
  std::snprintf(name, sizeof name, "%06llu%s", static_cast<unsigned long long>(generation),
                kSuffix);
  return name;
}

bool ParseMediaCommitName(const std::string& name, uint64_t* generation) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos || name.substr(dot) != kSuffix) return false;
  if (dot < kMinDigits || dot > kMaxDigits) return false;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::all_of(name.begin(), name.begin() + static_cast<ptrdiff_t>(dot), digit)) return false;
  *generation = std::strtoull(name.c_str(), nullptr, 10);
  return *generation > 0;
}

bool ParseUuid(const std::string& text, std::array<uint8_t, 16>* uuid) {
  if (text.size() != 36) return false;
  size_t digits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    if (hyphen && c == '-') continue;
    int value = -1;
    if (c >= '0' && c <= '9') value = c - '0';
    if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
    if (hyphen || value < 0) return false;
    uint8_t& byte = (*uuid)[digits / 2];
    byte = static_cast<uint8_t>(digits % 2 == 0 ? value << 4 : byte | value);
    ++digits;
  }
  return true;
}

std::string FormatUuid(const std::array<uint8_t, 16>& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", uuid[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

}  // namespace satchel
