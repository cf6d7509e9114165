// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Insertion-ordered hash map from chunk reference to a small value: a flat array of entries and an
// open-addressing table of 32-bit positions in it. 52 bytes + the value + 6 to 11 bytes an entry,
// against 120 for std::unordered_map.
//
// Entries are placed by the SHA-1 under a seed of this process, so that nobody can choose chunks
// that collide in the table. No removal but Clear. Not thread-safe.
#ifndef SATCHEL_CHUNKSTORE_CORE_FORMAT_REF_MAP_H_
#define SATCHEL_CHUNKSTORE_CORE_FORMAT_REF_MAP_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "chunkstore/core/format/chunk_ref.h"

namespace satchel {

template <typename Value>
class RefMap {
 public:
  struct Entry {
    ChunkRef ref;
    Value value;
  };

  // Returns the value and whether it was inserted; an existing value is left as it was.
  std::pair<Value*, bool> Insert(const ChunkRef& ref, const Value& value) {
    if ((entries_.size() + 1) * 4 > slots_.size() * 3) Grow();
    uint32_t* slot = Probe(ref);
    if (*slot != kFree) return {&entries_[*slot].value, false};
    *slot = static_cast<uint32_t>(entries_.size());
    entries_.push_back(Entry{ref, value});
    return {&entries_.back().value, true};
  }

  const Value* Find(const ChunkRef& ref) const {
    if (slots_.empty()) return nullptr;
    const uint32_t at = *const_cast<RefMap*>(this)->Probe(ref);
    return at == kFree ? nullptr : &entries_[at].value;
  }

  // Whether another reference with the same SHA-1 is there.
  bool HasNamesake(const ChunkRef& ref) const {
    const size_t mask = slots_.size() - 1;
    for (size_t i = Mix(ref) & mask; !slots_.empty() && slots_[i] != kFree; i = (i + 1) & mask) {
      if (entries_[slots_[i]].ref.IsNamesakeOf(ref)) return true;
    }
    return false;
  }

  void Clear() {
    entries_.clear();
    slots_.clear();
  }

  size_t size() const { return entries_.size(); }
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;

  static uint64_t Mix(const ChunkRef& ref) {
    static const uint64_t seed = (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
    uint64_t word;
    std::memcpy(&word, ref.id(), sizeof word);
    word = (word ^ seed) * 0x9e3779b97f4a7c15u;
    return word ^ (word >> 32);
  }

  uint32_t* Probe(const ChunkRef& ref) {
    const size_t mask = slots_.size() - 1;
    size_t i = Mix(ref) & mask;
    while (slots_[i] != kFree && entries_[slots_[i]].ref != ref) i = (i + 1) & mask;
    return &slots_[i];
  }

  void Grow() {
    slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, kFree);
    for (size_t i = 0; i < entries_.size(); ++i) {
      *Probe(entries_[i].ref) = static_cast<uint32_t>(i);
    }
  }

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;
};

struct Nothing {};
using RefSet = RefMap<Nothing>;

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_FORMAT_REF_MAP_H_
