// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SATCHEL_SHARES_PRELOAD_FILES_H_
#define SATCHEL_SHARES_PRELOAD_FILES_H_

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <string>

namespace satchel::preload {

// As open(2) of what is at that path below the share's root.
int OpenBelow(const std::string& below, int flags, mode_t mode);

// As pread(2) and pwrite(2), of a descriptor of a file of the share. offset: negative to append;
// then it is -1 less the file's end afterwards.
ssize_t ReadAt(int fd, uint64_t file, void* buffer, size_t size, int64_t offset);
ssize_t WriteAt(int fd, uint64_t file, const void* buffer, size_t size, int64_t* offset);

// 0 or an errno.
int StatFile(uint64_t file, struct stat* out);
int StatBelow(const std::string& below, bool follows, struct stat* out);

}  // namespace satchel::preload

#endif  // SATCHEL_SHARES_PRELOAD_FILES_H_
