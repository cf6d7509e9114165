// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes past the system's memory that the kernel does by itself (Linux AIO).
//
// A thread that writes that way waits for the disk, and on ext4 it has the file's lock meanwhile,
// if the place has not been written before. When the write is done the thread gets a processor
// late, because it has computed as much as the others that compute now; so long nobody writes to
// that file. A write of the kernel's lets the lock go as soon as it is queued
// (docs/results.md).
//
// Linux AIO and not io_uring, because containers and careful administrators forbid that.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_AIO_WRITER_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_AIO_WRITER_H_

#include <memory>

#include "chunkstore/core/os/env.h"

namespace satchel {

// `direct`: the same file, open past the system's memory. Both outlive the writer. Null where the
// kernel has no room for another one.
std::unique_ptr<AsyncWriter> MakeAioWriter(File* file, int direct);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_AIO_WRITER_H_
