// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_CHUNKSTORE_BINDING_STORE_H_
#define SATCHEL_CHUNKSTORE_BINDING_STORE_H_

#include <memory>

#include "chunkstore/core/store/store.h"

namespace satchel {

// The Python object. Closing it lets go of the store once no operation uses it any more.
struct PyStore {
  std::shared_ptr<Store> store;

  // Raises StateError when closed.
  std::shared_ptr<Store> Get() const;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_BINDING_STORE_H_
