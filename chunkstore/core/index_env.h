// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// How LevelDB reaches the system. As LevelDB's own way, except that tables are read instead of
// mapped: a mapped index of 16 million chunks would count as a gigabyte of our memory.
#ifndef SATCHEL_CHUNKSTORE_CORE_INDEX_ENV_H_
#define SATCHEL_CHUNKSTORE_CORE_INDEX_ENV_H_

namespace leveldb {
class Env;
}  // namespace leveldb

namespace satchel {

// Never destroyed.
leveldb::Env* IndexEnv();

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_INDEX_ENV_H_
