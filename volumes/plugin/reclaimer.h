// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Gives the overlay's space back after a checkpoint, while the machine goes on.
//
// A checkpoint turns dirty blocks into packed ones, and their bytes in the overlay into garbage: an
// extent for each block that the guest wrote alone. To free thousands of them took the file system
// up to 12 s, so it is not done while the machine stands still, but here, when the daemon asks for
// it after the machine went on (BlockMap::AskForSpace).
//
// The guest writes meanwhile. A write puts its bytes into the overlay and then marks the block
// dirty, both under the lock of the block's stripe; the reclaimer holds that lock alone while it
// looks whether a block is dirty and punches it out if it is not. So a block is either left, or
// punched out before the write begins. Readers need no lock: what they read of the overlay counts
// only if the block still is dirty afterwards (volume.h).
//
// What is garbage is seen from the overlay's extents and the map alone. So the daemon need not say
// where it is, and whoever dies in between loses nothing: the next time finds it.
//
// Not done: no extent is given back that several stripes share in one call, as nobody holds two
// stripes; the guest waits for one call at most.
#ifndef SATCHEL_VOLUMES_PLUGIN_RECLAIMER_H_
#define SATCHEL_VOLUMES_PLUGIN_RECLAIMER_H_

#include <cstdint>
#include <thread>

#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/os/status.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "volumes/plugin/stripes.h"

namespace satchel {

class Reclaimer {
 public:
  // All of them outlive it. `stripes` are those under which the overlay is written.
  Reclaimer(const BlockMap* map, File* overlay, Stripes* stripes)
      : map_(map), overlay_(overlay), stripes_(stripes) {}
  ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // From now on a thread does what the daemon asks for. To be called once.
  Status Start();

  // Gives back all that is not dirty now. Ends early when the reclaimer is about to be destroyed.
  Status Reclaim();

 private:
  void Work();
  bool WaitForRequest(uint32_t done);
  bool stopping();
  Status ReclaimStripe(uint64_t begin, uint64_t end);
  Status PunchOut(SharedMutex* stripe, uint64_t begin, uint64_t end) REQUIRES(stripe);

  const BlockMap* const map_;
  File* const overlay_;
  Stripes* const stripes_;

  Mutex mutex_;
  CondVar stop_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace satchel

#endif  // SATCHEL_VOLUMES_PLUGIN_RECLAIMER_H_
