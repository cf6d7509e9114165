// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/description.h"

#include <cstdlib>

namespace satchel {
namespace {

constexpr size_t kLimit = 4096;  // bytes of such a file

// The number behind "version":, or -1.
long FindVersion(const std::string& text, const std::string& format) {
  if (text.find("\"" + format + "\"") == std::string::npos) return -1;
  const std::string key = "\"version\":";
  const size_t at = text.find(key);
  return at == std::string::npos ? -1 : std::strtol(text.c_str() + at + key.size(), nullptr, 10);
}

}  // namespace

std::string MakeDescription(const std::string& format, int version, const std::string& extra) {
  return "{\"format\": \"" + format + "\", \"version\": " + std::to_string(version) + extra + "}\n";
}

Status CheckDescription(Env* env, const std::string& path, const std::string& format, int version,
                        const std::string& subject) {
  const std::string what = "cannot open " + subject;
  std::string text;
  const Status status = ReadFile(env, path, kLimit, &text);
  if (status.Is(Kind::kNotFound)) return Status::Make(Kind::kNotFound, what, "no file " + path);
  if (!status.ok()) return Status::Make(status.kind(), what, status.ToString());
  const long found = FindVersion(text, format);
  if (found == version) return {};
  if (found >= 0) {
    return Status::Make(Kind::kUnsupported, what,
                        "its version is " + std::to_string(found) + ", this program knows " +
                            std::to_string(version));
  }
  return Status::Make(Kind::kDamaged, what, path + " is malformed");
}

}  // namespace satchel
