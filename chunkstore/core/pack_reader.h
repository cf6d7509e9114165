// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Random reads of chunk records from pack files: used by the store, by media and by the nbdkit
// plugin, which opens no store.
#ifndef SATCHEL_CHUNKSTORE_CORE_PACK_READER_H_
#define SATCHEL_CHUNKSTORE_CORE_PACK_READER_H_

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "chunkstore/core/env.h"
#include "chunkstore/core/record.h"

namespace satchel {

// A block map's entry has 17 bits for the number of a pack. Numbers are never used again.
constexpr uint32_t kMaxPackNumber = 1u << 17;

// Where a record is.
struct Location {
  uint32_t pack;
  uint32_t offset;  // of the record header
  uint16_t length;  // bytes of payload

  uint32_t size() const { return kRecordHeaderSize + length; }
};

// "000123.pack" for 123, and back; false for any other name.
std::string PackName(uint32_t pack);
bool ParsePackName(const std::string& name, uint32_t* pack);

// Thread-safe. Pack files are opened at first use and at most kMaxOpen are kept open.
class PackReader {
 public:
  // `folder` holds the packs. `env` outlives the reader.
  PackReader(Env* env, std::string folder) : env_(env), folder_(std::move(folder)) {}

  // Reads the record at `at` in one pread, checks its checksum and decompresses it to the 4096
  // bytes at `block`. kDamaged or kInvalid for a record that is not whole; kNotFound for a pack
  // that is not there. Does not check the SHA-256: the record was verified when it was admitted.
  Status ReadRecord(const Location& at, uint8_t* block);

  // The same record undecoded, checksum checked. `buffer` has room for kMaxRecordSize bytes and
  // `record` points into it.
  Status ReadRaw(const Location& at, uint8_t* buffer, RecordView* record);

  // Bytes of a pack, fewer at its end, for a caller that parses several records out of them.
  Status ReadSpan(uint32_t pack, uint64_t offset, size_t n, uint8_t* buffer, size_t* got);

  // Whether the record at `at` has this reference and length in its header. Reads nothing else of
  // it, so it says nothing about the payload. false when it cannot be read.
  bool IsRecordOf(const ChunkRef& ref, const Location& at);

  // As ReadRecord, from a file descriptor of a pack, for a caller that keeps its own.
  static Status ReadRecord(int fd, uint32_t offset, uint16_t length, uint8_t* block);

  // Closes a pack that is about to be removed.
  void Forget(uint32_t pack);

 private:
  static constexpr size_t kMaxOpen = 256;

  Status Find(uint32_t pack, std::shared_ptr<File>* file);

  Env* const env_;
  const std::string folder_;
  std::shared_mutex mutex_;
  std::unordered_map<uint32_t, std::shared_ptr<File>> files_;  // guarded by mutex_
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_PACK_READER_H_
