// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "volumes/plugin/config.h"

#include <charconv>
#include <utility>

namespace satchel {
namespace {

Status Bad(const std::string& key, const std::string& value, const char* why) {
  return Status::Make(Kind::kUsage, "cannot use " + key + "=" + value, why);
}

template <typename Number>
bool Parse(const std::string& text, Number* number) {
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (;;) {
    size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace

Status Config::Set(const std::string& key, const std::string& value) {
  if (key == "packs") {
    packs = value;
    return {};
  }
  if (key == "reader") {
    reader = value;
    return {};
  }
  if (key == "misses") {
    misses = value;
    return {};
  }
  if (key == "unpacked") {
    unpacked = value;
    return {};
  }
  if (key == "miss_wait") {
    if (!Parse(value, &miss_wait)) return Bad(key, value, "must be a number of seconds");
    return {};
  }
  if (key != "volume") return Bad(key, value, "unknown setting");
  std::vector<std::string> parts = Split(value, ':');
  VolumeConfig volume;
  volume.read_only = parts.size() == 5 && parts[4] == "ro";
  if (parts.size() != 4 && !volume.read_only) {
    return Bad(key, value, "must be NAME:SIZE:MAPFILE:OVERLAYFILE[:ro]");
  }
  volume.name = parts[0];
  volume.map_path = parts[2];
  volume.overlay_path = parts[3];
  if (volume.name.empty()) return Bad(key, value, "the name is empty");
  if (!Parse(parts[1], &volume.size) || volume.size > INT64_MAX) {
    return Bad(key, value, "the size must be a number of bytes");
  }
  for (const VolumeConfig& other : volumes) {
    if (other.name == volume.name) return Bad(key, value, "two volumes of one name");
  }
  volumes.push_back(std::move(volume));
  return {};
}

Status Config::Complete() const {
  if (packs.empty() == reader.empty()) {
    return Status::Make(Kind::kUsage, "one of packs=DIR and reader=SOCKET is needed");
  }
  if (misses.empty()) return Status::Make(Kind::kUsage, "misses=SOCKET is missing");
  if (volumes.empty()) return Status::Make(Kind::kUsage, "volume=... is missing");
  return {};
}

}  // namespace satchel
