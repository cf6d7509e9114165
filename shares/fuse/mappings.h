// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// FUSE_DIRECT_IO_ALLOW_MMAP, which Linux has since 6.6 and libfuse 3.14 has no name for. With it a
// file that is opened without cached pages may still be mapped with MAP_SHARED. The kernel offers
// it in its INIT message, and it is asked for in the reply; both are looked at here, on their way
// from and to /dev/fuse.
#ifndef SATCHEL_SHARES_FUSE_MAPPINGS_H_
#define SATCHEL_SHARES_FUSE_MAPPINGS_H_

#include <sys/uio.h>

#include <cstddef>
#include <vector>

namespace satchel {

// Whether this is an INIT message of a kernel that has it.
bool OffersMappings(const void* message, size_t size);

// Whether these parts are libfuse's reply to INIT. True for no other one that is written before it.
bool IsInitReply(const iovec* parts, int count);

// That reply in one piece, which asks for it.
std::vector<char> WithMappings(const iovec* parts, int count);

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_MAPPINGS_H_
