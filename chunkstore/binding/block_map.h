// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_CHUNKSTORE_BINDING_BLOCK_MAP_H_
#define SATCHEL_CHUNKSTORE_BINDING_BLOCK_MAP_H_

#include <memory>

#include "chunkstore/core/volume/block_map_file.h"

namespace satchel {

// The Python object. Closing it lets go of the mapping once no operation uses it any more.
struct PyBlockMap {
  std::shared_ptr<BlockMap> map;

  // Raises StateError when closed.
  std::shared_ptr<BlockMap> Get() const;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_BINDING_BLOCK_MAP_H_
