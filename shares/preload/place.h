// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What of a program's paths and descriptors is the share's.
//
// The share is at a real folder, the root, so that the kernel has working directories and
// descriptors of folders in it: a folder below it is made when a program goes there or opens it. A
// file of the share that is open is, for the kernel, an empty file in another folder, whose name is
// the file's id. So its descriptor is inherited, duplicated and closed as any other one, and has
// the offset, and its flags.
#ifndef SATCHEL_SHARES_PRELOAD_PLACE_H_
#define SATCHEL_SHARES_PRELOAD_PLACE_H_

#include <dlfcn.h>
#include <stdint.h>

#include <string>

#include "shares/preload/line.h"

// The function of that name that the program had without this library.
#define NEXT(name)                                                                         \
  ([] {                                                                                    \
    static const auto next = reinterpret_cast<decltype(&::name)>(dlsym(RTLD_NEXT, #name)); \
    return next;                                                                           \
  }())

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace satchel::preload {

// Whether the path leads into the share; then `below` is the path from its root, without links
// resolved, "" for the root itself. fd: of a folder, or AT_FDCWD.
bool Below(int fd, const char* path, std::string* below);

// The id of the share's file that is open there; 0 where it is none.
uint64_t FileOf(int fd);

// Whether the descriptor is of a folder of the share.
bool FolderOf(int fd, std::string* below);

// That descriptor is that file's from now on, or nothing is known of it any more (0).
void NoteFile(int fd, uint64_t file);

// What a folder of the share is for the kernel, made if it is not there.
std::string RealFolder(const std::string& below);

// The empty file that stands for an open one.
std::string RealFile(uint64_t file);

// Sets errno, if there is one; -1 then, else 0.
int Done(int error);

}  // namespace satchel::preload

#endif  // SATCHEL_SHARES_PRELOAD_PLACE_H_
