// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What a prune must not take although nobody has named it: roots that are being made, and volumes
// that are attached.
//
// A root is made by one call and named (by a manifest, a catalog) by another, later. In between it
// is young. Whoever makes roots says Begin before the first and End after all of them are named.
// Whoever prunes says Begin, lists the names that there are, prunes, says End. So a root that is
// made and named while the names are being listed, and is in no list, is still young:
//
//   maker                 Begin   make R   name R   End
//   pruner        Begin   list the names                  prune: R is young      End
//
// R is forgotten here once every maker that had begun when R was made has ended, and everybody who
// had begun by then has ended too. Roots made while nobody has begun are not young: in a process of
// one thread they need not be.
#ifndef SATCHEL_CHUNKSTORE_CORE_STORE_ROOTS_IN_USE_H_
#define SATCHEL_CHUNKSTORE_CORE_STORE_ROOTS_IN_USE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "chunkstore/core/format/table.h"
#include "chunkstore/core/os/mutex.h"
#include "chunkstore/core/volume/block_map_file.h"

namespace satchel {

// Thread-safe.
class RootsInUse {
 public:
  // Gives what End wants to have.
  uint64_t Begin();
  void End(uint64_t maker);

  // Called while no prune can run.
  void Made(const TableRoot& root);

  // For as long as `map` lives, `root` is in use. A later root takes the place of an earlier one.
  // The packs that it points into are the store's business.
  void Attach(const std::shared_ptr<BlockMap>& map, const TableRoot& root);

  // The root of an attached map has changed. Nothing for a map that was never attached.
  void Changed(const BlockMap* map, const TableRoot& root);

  // What there is now: young roots, and the roots of attached maps.
  void Collect(std::vector<TableRoot>* young, std::vector<TableRoot>* attached);

 private:
  struct Young {
    TableRoot root;
    uint64_t made = 0;
    uint64_t named = 0;  // when the last maker that may name it had ended; 0: not yet
  };
  struct Attached {
    std::weak_ptr<BlockMap> map;
    TableRoot root;
  };

  Mutex mutex_;
  uint64_t clock_ GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> begun_ GUARDED_BY(mutex_);  // and not ended
  std::vector<Young> young_ GUARDED_BY(mutex_);
  std::map<const BlockMap*, Attached> attached_ GUARDED_BY(mutex_);
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_STORE_ROOTS_IN_USE_H_
