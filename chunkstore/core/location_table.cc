// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/location_table.h"

#include <algorithm>
#include <new>

namespace satchel {
namespace {

// Pack numbers begin with 1, so no place is 0, and this one is of no pack.
constexpr uint64_t kRemoved = 1;

uint32_t Prefix(const ChunkRef& ref) {
  const uint8_t* id = ref.id();
  return (uint32_t{id[0]} << 24) | (uint32_t{id[1]} << 16) | (uint32_t{id[2]} << 8) |
         uint32_t{id[3]};
}

template <typename Array>
void Resize(Array* array, size_t size) {
  using Element = typename Array::element_type;
  void* memory = std::realloc(array->get(), size * sizeof(Element));
  if (memory == nullptr) throw std::bad_alloc();
  (void)array->release();
  array->reset(static_cast<Element*>(memory));
}

}  // namespace

LocationTable::LocationTable() {
  MakeDirectory();
  Grow(kMinSlots);
}

LocationTable::Entry LocationTable::EntryOf(const ChunkRef& ref, const Location& at) {
  return Entry{Prefix(ref), EncodeLocation(at)};
}

void LocationTable::Load(const Entry& entry) {
  if (size_ == capacity_) Reserve(std::max(kMinSlots, capacity_ + capacity_ / 8));
  prefixes_[size_] = entry.prefix;
  places_[size_++] = entry.place;
}

void LocationTable::Seal() { MakeDirectory(); }

void LocationTable::Add(const ChunkRef& ref, const Location& at) {
  if ((used_ + 1) * 4 > new_places_.size() * 3) Grow(new_places_.size() * 2);
  Place(Prefix(ref), EncodeLocation(at));
  if (used_ >= std::max(kMinMerge, size_ / 8)) Merge();
}

unsigned LocationTable::Find(const ChunkRef& ref, Location* at) const {
  const uint32_t prefix = Prefix(ref);
  unsigned count = 0;
  const auto take = [&](uint64_t place) {
    if (place != kRemoved) at[count++] = DecodeLocation(place);
  };
  const size_t mask = new_places_.size() - 1;
  for (size_t i = Slot(prefix); new_places_[i] != 0 && count < kMaxCandidates; i = (i + 1) & mask) {
    if (new_prefixes_[i] == prefix) take(new_places_[i]);
  }
  const uint32_t* begin = prefixes_.get() + directory_[prefix >> kDirectoryBits];
  const uint32_t* end = prefixes_.get() + directory_[(prefix >> kDirectoryBits) + 1];
  for (const uint32_t* p = std::lower_bound(begin, end, prefix);
       p != end && *p == prefix && count < kMaxCandidates; ++p) {
    take(places_[static_cast<size_t>(p - prefixes_.get())]);
  }
  return count;
}

void LocationTable::Remove(const ChunkRef& ref, const Location& at) {
  const uint32_t prefix = Prefix(ref);
  const uint64_t place = EncodeLocation(at);
  const size_t mask = new_places_.size() - 1;
  for (size_t i = Slot(prefix); new_places_[i] != 0; i = (i + 1) & mask) {
    if (new_places_[i] == place) new_places_[i] = kRemoved;
  }
  const size_t end = directory_[(prefix >> kDirectoryBits) + 1];
  for (size_t i = directory_[prefix >> kDirectoryBits]; i < end; ++i) {
    if (places_[i] == place) places_[i] = kRemoved;
  }
}

void LocationTable::RemovePack(uint32_t pack) {
  const auto remove = [pack](uint64_t* place) {
    if (*place > kRemoved && DecodeLocation(*place).pack == pack) *place = kRemoved;
  };
  for (size_t i = 0; i < size_; ++i) remove(&places_[i]);
  for (uint64_t& place : new_places_) remove(&place);
}

void LocationTable::Reserve(size_t size) {
  Resize(&prefixes_, size);
  Resize(&places_, size);
  capacity_ = size;
}

void LocationTable::MakeDirectory() {
  directory_.assign((size_t{1} << kDirectoryBits) + 1, 0);
  for (size_t i = 0; i < size_; ++i) ++directory_[(prefixes_[i] >> kDirectoryBits) + 1];
  for (size_t i = 1; i < directory_.size(); ++i) directory_[i] += directory_[i - 1];
}

size_t LocationTable::Slot(uint32_t prefix) const {
  return (prefix * uint64_t{0x9e3779b97f4a7c15}) >> 32 & (new_places_.size() - 1);
}

void LocationTable::Place(uint32_t prefix, uint64_t place) {
  const size_t mask = new_places_.size() - 1;
  size_t i = Slot(prefix);
  while (new_places_[i] != 0) i = (i + 1) & mask;
  new_prefixes_[i] = prefix;
  new_places_[i] = place;
  ++used_;
}

void LocationTable::Grow(size_t slots) {
  std::vector<uint32_t> prefixes(slots);
  std::vector<uint64_t> places(slots, 0);
  prefixes.swap(new_prefixes_);
  places.swap(new_places_);
  used_ = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] != 0) Place(prefixes[i], places[i]);
  }
}

void LocationTable::Merge() {
  size_t kept = 0;
  for (size_t i = 0; i < size_; ++i) {
    if (places_[i] == kRemoved) continue;
    prefixes_[kept] = prefixes_[i];
    places_[kept++] = places_[i];
  }
  size_ = kept;
  std::vector<std::pair<uint32_t, uint64_t>> fresh;
  fresh.reserve(used_);
  for (size_t i = 0; i < new_places_.size(); ++i) {
    if (new_places_[i] > kRemoved) fresh.emplace_back(new_prefixes_[i], new_places_[i]);
  }
  std::sort(fresh.begin(), fresh.end());
  if (size_ + fresh.size() > capacity_) Reserve(size_ + fresh.size());

  size_t from = size_;
  size_t to = size_ + fresh.size();
  size_ = to;
  while (!fresh.empty()) {  // from the back, so that nothing is overwritten before it is moved
    --to;
    if (from > 0 && prefixes_[from - 1] > fresh.back().first) {
      --from;
      prefixes_[to] = prefixes_[from];
      places_[to] = places_[from];
    } else {
      prefixes_[to] = fresh.back().first;
      places_[to] = fresh.back().second;
      fresh.pop_back();
    }
  }
  MakeDirectory();
  used_ = 0;
  std::fill(new_places_.begin(), new_places_.end(), 0);
}

}  // namespace satchel
