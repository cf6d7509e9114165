// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_VOLUMES_PLUGIN_MISS_CLIENT_H_
#define SATCHEL_VOLUMES_PLUGIN_MISS_CLIENT_H_

#include <cstdint>
#include <string>

#include "chunkstore/core/os/status.h"
#include "volumes/plugin/miss_protocol.h"

namespace satchel {

// The plugin's end of the miss protocol. One per peer. Thread-safe: each thread keeps its own
// connection, so that misses of several threads are under way at once.
class MissClient {
 public:
  // The daemon is asked for absent blocks, the block reader for packed ones.
  enum class Peer { kDaemon, kReader };

  // `wait_seconds`: how long a request goes on without a daemon that answers before it fails.
  MissClient(Peer peer, std::string socket_path, uint32_t wait_seconds);

  // Waits until the blocks are no longer absent, or until their content is in `content`, where the
  // daemon cannot keep it: they stay absent then. It is empty otherwise.
  //
  // While the daemon holds the connection there is no time limit: a slow link is the daemon's to
  // judge. Ends early, as kCancelled, when nbdkit or the NBD client goes away.
  Status Ask(uint32_t volume, uint64_t first, uint32_t count, std::string* content);

 private:
  enum class Outcome { kAnswered, kLost, kShutdown };

  Outcome Exchange(const MissRequest& request, uint32_t* status, std::string* content) const;
  Outcome Receive(void* data, size_t size) const;
  bool Connect() const;

  const Peer peer_;
  const std::string socket_path_;
  const uint32_t wait_seconds_;
};

}  // namespace satchel

#endif  // SATCHEL_VOLUMES_PLUGIN_MISS_CLIENT_H_
