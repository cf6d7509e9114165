// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// How LevelDB reaches the system: through an Env, as everything else of a store does. So one
// recorder sees every write of a store, and one fault injector fails any of them.
//
// Three things differ from LevelDB's own way:
//   - tables are read, not mapped: a mapped index of 16 million chunks would count as a gigabyte of
//     our memory
//   - a name is as durable as what it names: the first sync of a new file and every rename sync the
//     folder too. LevelDB leaves that to the file system, and not every one does it
//   - there is no LOG file
#ifndef SATCHEL_CHUNKSTORE_CORE_INDEX_INDEX_ENV_H_
#define SATCHEL_CHUNKSTORE_CORE_INDEX_INDEX_ENV_H_

#include <memory>

#include "chunkstore/core/os/env.h"

namespace leveldb {
class Env;
}  // namespace leveldb

namespace satchel {

// Begin the message of an error of LevelDB's for which the cause was that there is no room, or that
// nothing may be written.
constexpr char kNoRoomMark[] = "no room: ";
constexpr char kDeniedMark[] = "not allowed: ";

// `env` outlives it, and it outlives the database.
std::unique_ptr<leveldb::Env> NewIndexEnv(Env* env);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_INDEX_INDEX_ENV_H_
