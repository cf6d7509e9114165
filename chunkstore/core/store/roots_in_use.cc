// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/store/roots_in_use.h"

#include <algorithm>

namespace satchel {

uint64_t RootsInUse::Begin() {
  const MutexLock lock(&mutex_);
  begun_.insert(++clock_);
  return clock_;
}

void RootsInUse::End(uint64_t maker) {
  const MutexLock lock(&mutex_);
  begun_.erase(maker);
  const uint64_t now = ++clock_;
  const uint64_t oldest = begun_.empty() ? now : *begun_.begin();
  for (Young& young : young_) {
    if (young.named == 0 && young.made < oldest) young.named = now;
  }
  const auto forgotten = [&](const Young& young) {
    return young.named != 0 && young.named <= oldest;
  };
  young_.erase(std::remove_if(young_.begin(), young_.end(), forgotten), young_.end());
}

void RootsInUse::Made(const TableRoot& root) {
  const MutexLock lock(&mutex_);
  if (!begun_.empty()) young_.push_back({root, ++clock_, 0});
}

void RootsInUse::Attach(const std::shared_ptr<BlockMap>& map, const TableRoot& root) {
  const MutexLock lock(&mutex_);
  Attached& attached = attached_[map.get()];
  if (attached.map.expired()) attached.map = map;  // also where a new map has an old one's place
  attached.root = root;
}

void RootsInUse::Changed(const BlockMap* map, const TableRoot& root) {
  const MutexLock lock(&mutex_);
  const auto found = attached_.find(map);
  if (found != attached_.end()) found->second.root = root;
}

void RootsInUse::Collect(std::vector<TableRoot>* young, std::vector<TableRoot>* attached) {
  const MutexLock lock(&mutex_);
  for (const Young& each : young_) young->push_back(each.root);
  for (auto at = attached_.begin(); at != attached_.end();) {
    if (at->second.map.expired()) {
      at = attached_.erase(at);
      continue;
    }
    attached->push_back(at->second.root);
    ++at;
  }
}

}  // namespace satchel
