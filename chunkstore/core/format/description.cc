// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/format/description.h"

#include <cstdlib>

namespace satchel {
namespace {

constexpr size_t kLimit = 4096;  // bytes of such a file

// Whether `text` is what MakeDescription gives, with any members behind the version.
bool IsDescription(const std::string& text, const std::string& format, int version) {
  const std::string whole = MakeDescription(format, version, "");
  const size_t end = whole.size() - 2;  // where "}\n" begins
  if (text.size() < whole.size() || text.compare(0, end, whole, 0, end) != 0) return false;
  const std::string extra = text.substr(end, text.size() - whole.size());
  if (!extra.empty() && (extra.size() < 4 || extra.compare(0, 3, ", \"") != 0)) return false;
  return text.compare(text.size() - 2, 2, "}\n") == 0;
}

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
  if (found == version && IsDescription(text, format, version)) return {};
  if (found >= 0 && found != version) {
    return Status::Make(Kind::kUnsupported, what,
                        "its version is " + std::to_string(found) + ", this program knows " +
                            std::to_string(version));
  }
  return Status::Make(Kind::kDamaged, what, path + " is malformed");
}

}  // namespace satchel
