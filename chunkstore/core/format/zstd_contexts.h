// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_ZSTD_CONTEXTS_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_ZSTD_CONTEXTS_H_

#include <zstd.h>

namespace satchel {

// A thread's own, made once: making one costs more than a block does.
struct ZstdContexts {
  static ZstdContexts& OfThread() {
    thread_local ZstdContexts contexts;
    return contexts;
  }

  ZstdContexts() = default;
  ZstdContexts(const ZstdContexts&) = delete;
  ZstdContexts& operator=(const ZstdContexts&) = delete;
  ~ZstdContexts() {
    ZSTD_freeCCtx(compress);
    ZSTD_freeDCtx(decompress);
  }

  ZSTD_CCtx* const compress = ZSTD_createCCtx();
  ZSTD_DCtx* const decompress = ZSTD_createDCtx();
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_ZSTD_CONTEXTS_H_
