// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/index/location_table.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <tuple>
#include <utility>

namespace satchel {
namespace {

// Pack numbers begin with 1, so no place is 0, and this one is of no pack.
constexpr uint64_t kRemoved = 1;

uint32_t Prefix(const ChunkRef& ref) {
  const uint8_t* id = ref.id();
  return (uint32_t{id[0]} << 24) | (uint32_t{id[1]} << 16) | (uint32_t{id[2]} << 8) |
         uint32_t{id[3]};
}

constexpr size_t Upper(uint32_t prefix) { return prefix >> 16; }
constexpr uint16_t Lower(uint32_t prefix) { return static_cast<uint16_t>(prefix); }

}  // namespace

LocationTable::Entry LocationTable::EntryOf(const ChunkRef& ref, const Location& at) {
  return Entry{Prefix(ref), EncodeLocation(at)};
}

// The directory counts until it is sealed: entry h + 1 those of the upper half h.
void LocationTable::Load(const Entry& entry) {
  if (used_ < kFew) return AddNew(entry.prefix, entry.place);
  MakeDirectory();
  if (size_ == places_.size()) Reserve(std::max(kMinSorted, size_ + size_ / 8));
  lowers_[size_] = Lower(entry.prefix);
  places_[size_++] = entry.place;
  ++directory_[Upper(entry.prefix) + 1];
}

void LocationTable::Seal() {
  for (size_t i = 1; i < directory_.size(); ++i) directory_[i] += directory_[i - 1];
}

void LocationTable::Add(const ChunkRef& ref, const Location& at) {
  AddNew(Prefix(ref), EncodeLocation(at));
  if (used_ >= MergeAt()) Merge();
}

// An eighth of what is there, so that a small table is not merged for each few; of a large one
// less, because the additions take more memory than what they are merged into.
size_t LocationTable::MergeAt() const {
  return std::max(kMinMerge, std::min(size_ / 8, std::max(kMaxMerge, size_ / 32)));
}

unsigned LocationTable::Find(const ChunkRef& ref, Location* at) const {
  const uint32_t prefix = Prefix(ref);
  unsigned count = 0;
  const auto take = [&](uint64_t place) {
    if (place != kRemoved) at[count++] = DecodeLocation(place);
  };
  const size_t mask = new_.size() - 1;
  for (size_t i = Slot(prefix); used_ > 0 && new_[i].place != 0 && count < kMaxCandidates;
       i = (i + 1) & mask) {
    if (new_[i].prefix == prefix) take(new_[i].place);
  }
  if (size_ == 0) return count;
  const uint16_t* const lowers = lowers_.data();
  const uint16_t* const end = lowers + directory_[Upper(prefix) + 1];
  for (const uint16_t* p = std::lower_bound(lowers + directory_[Upper(prefix)], end, Lower(prefix));
       p != end && *p == Lower(prefix) && count < kMaxCandidates; ++p) {
    take(places_[static_cast<size_t>(p - lowers)]);
  }
  return count;
}

void LocationTable::Remove(const ChunkRef& ref, const Location& at) {
  const uint32_t prefix = Prefix(ref);
  const uint64_t place = EncodeLocation(at);
  const size_t mask = new_.size() - 1;
  for (size_t i = Slot(prefix); used_ > 0 && new_[i].place != 0; i = (i + 1) & mask) {
    if (new_[i].place == place) new_[i].place = kRemoved;
  }
  if (size_ == 0) return;
  for (size_t i = directory_[Upper(prefix)]; i < directory_[Upper(prefix) + 1]; ++i) {
    if (places_[i] != place) continue;
    places_[i] = kRemoved;
    removed_ = true;
  }
}

void LocationTable::RemovePack(uint32_t pack) {
  const auto remove = [pack](uint64_t* place) {
    if (*place > kRemoved && DecodeLocation(*place).pack == pack) *place = kRemoved;
  };
  for (size_t i = 0; i < size_; ++i) remove(&places_[i]);
  for (size_t i = 0; i < new_.size(); ++i) remove(&new_[i].place);
  removed_ = true;
}

void LocationTable::MakeDirectory() {
  if (directory_.empty()) directory_.resize(kUppers + 1);
}

void LocationTable::Reserve(size_t size) {
  lowers_.Resize(size);
  places_.Resize(size);
}

size_t LocationTable::Slot(uint32_t prefix) const {
  return (prefix * uint64_t{0x9e3779b97f4a7c15}) >> 32 & (new_.size() - 1);
}

void LocationTable::AddNew(uint32_t prefix, uint64_t place) {
  if ((used_ + 1) * 4 > new_.size() * 3) Grow(std::max(kMinSlots, new_.size() * 2));
  Place(prefix, place);
}

void LocationTable::Place(uint32_t prefix, uint64_t place) {
  const size_t mask = new_.size() - 1;
  size_t i = Slot(prefix);
  while (new_[i].place != 0) i = (i + 1) & mask;
  new_[i] = Entry{prefix, place};
  ++used_;
}

void LocationTable::Grow(size_t slots) {
  const PageArray<Entry> before = std::exchange(new_, PageArray<Entry>(slots));
  used_ = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].place != 0) Place(before[i].prefix, before[i].place);
  }
}

// From the back, so that nothing is overwritten before it is moved.
void LocationTable::Merge() {
  MakeDirectory();
  if (removed_) DropRemoved();
  size_t fresh = SortNew();
  size_t to = size_ + fresh;
  Reserve(to);
  size_ = to;
  for (size_t upper = kUppers; upper-- > 0 && fresh > 0;) {
    const size_t begin = directory_[upper];
    size_t end = directory_[upper + 1];
    directory_[upper + 1] = static_cast<uint32_t>(to);
    for (; fresh > 0 && Upper(new_[fresh - 1].prefix) == upper; --fresh) {
      const Entry entry = std::exchange(new_[fresh - 1], Entry{});
      const uint16_t* const lowers = lowers_.data();
      const auto above = std::upper_bound(lowers + begin, lowers + end, Lower(entry.prefix));
      const auto middle = static_cast<size_t>(above - lowers);
      to -= end - middle;
      MoveUp(middle, end, to);
      end = middle;
      lowers_[--to] = Lower(entry.prefix);
      places_[to] = entry.place;
    }
    to -= end - begin;
    MoveUp(begin, end, to);
  }
}

void LocationTable::MoveUp(size_t begin, size_t end, size_t to) {
  assert(to >= begin);
  std::memmove(&lowers_[to], &lowers_[begin], (end - begin) * sizeof(uint16_t));
  std::memmove(&places_[to], &places_[begin], (end - begin) * sizeof(uint64_t));
}

void LocationTable::DropRemoved() {
  size_t kept = 0;
  for (size_t upper = 0, i = 0; upper < kUppers; ++upper) {
    for (; i < directory_[upper + 1]; ++i) {
      if (places_[i] == kRemoved) continue;
      lowers_[kept] = lowers_[i];
      places_[kept++] = places_[i];
    }
    directory_[upper + 1] = static_cast<uint32_t>(kept);
  }
  size_ = kept;
  removed_ = false;
}

// Brings the additions to the front, in the order of their prefixes, and counts none any more.
// Returns how many there are; all other slots are free.
size_t LocationTable::SortNew() {
  size_t count = 0;
  for (size_t i = 0; i < new_.size(); ++i) {
    const Entry entry = std::exchange(new_[i], Entry{});
    if (entry.place > kRemoved) new_[count++] = entry;
  }
  used_ = 0;
  std::sort(new_.data(), new_.data() + count, [](const Entry& a, const Entry& b) {
    return std::tie(a.prefix, a.place) < std::tie(b.prefix, b.place);
  });
  return count;
}

}  // namespace satchel
