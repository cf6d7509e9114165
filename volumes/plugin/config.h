// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_VOLUMES_PLUGIN_CONFIG_H_
#define SATCHEL_VOLUMES_PLUGIN_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "chunkstore/core/os/status.h"

namespace satchel {

struct VolumeConfig {
  std::string name;
  uint64_t size = 0;  // bytes; need not be a multiple of a block
  std::string map_path;
  std::string overlay_path;
  bool read_only = false;
};

// The plugin's settings, as nbdkit hands them over one by one.
struct Config {
  std::string packs;                  // packs=DIR, or
  std::string reader;                 // reader=SOCKET
  std::string misses;                 // misses=SOCKET
  uint32_t miss_wait = 30;            // miss_wait=SECONDS
  std::string unpacked;               // unpacked=FILE; empty: nothing is kept
  std::vector<VolumeConfig> volumes;  // volume=NAME:SIZE:MAPFILE:OVERLAYFILE[:ro]

  // kUsage for an unknown key and for a value that cannot be meant.
  Status Set(const std::string& key, const std::string& value);

  // kUsage when something is missing.
  Status Complete() const;
};

}  // namespace satchel

#endif  // SATCHEL_VOLUMES_PLUGIN_CONFIG_H_
