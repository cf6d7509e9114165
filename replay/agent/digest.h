// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// One SHA-256 over files and folders: two guests with the same digest hold the same application
// state. Times, owners and permissions do not count.
#ifndef SATCHEL_REPLAY_AGENT_DIGEST_H_
#define SATCHEL_REPLAY_AGENT_DIGEST_H_

#include <string>
#include <vector>

namespace satchel {

// The paths in byte order, each folder followed by what it holds in byte order. Per entry: a letter
// (f file, d folder, l link, o other, a absent), the path, NUL, the size of the content as 8 bytes
// little-endian, the content (a file's bytes, a link's target, nothing).
// False: a file could not be read; *error names it.
bool DigestPaths(std::vector<std::string> paths, std::string* hex, std::string* error);

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_DIGEST_H_
