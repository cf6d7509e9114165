// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/native/explore.h"

#include <algorithm>
#include <cstdlib>
#include <unordered_set>
#include <utility>

#include "chunkstore/core/os/workers.h"
#include "tests/native/inspect.h"

namespace satchel::sim {
namespace {

constexpr size_t kEnough = 5;  // faults

// Rounds over all places in which nothing new came, after which there is taken to be no more.
constexpr int kFruitless = 8;

class Explorer {
 public:
  Explorer(const SimDisk& disk, const Promises& promises, uint64_t seed)
      : base_(disk.base()), journal_(disk.Journal()), promises_(promises), seed_(seed) {
    found_.places = journal_.size() + 1;
    if (const char* only = std::getenv("SATCHEL_CRASH_STATE")) {
      char* end = nullptr;
      only_place_ = std::strtoull(only, &end, 10);
      only_number_ = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 0;
    }
  }

  // A number at each of the places, then the next number: an exploration that is cut short has been
  // everywhere.
  Exploration Run(uint64_t wanted) {
    Workers::Inline(true);
    if (only_place_ != kNever) {
      Round(only_number_);
      return found_;
    }
    int fruitless = 0;
    for (uint64_t number = 0; found_.states.size() < wanted && fruitless < kFruitless; ++number) {
      const size_t before = found_.states.size();
      Round(number);
      if (Enough()) break;
      fruitless = found_.states.size() == before ? fruitless + 1 : 0;
    }
    return found_;
  }

 private:
  void Round(uint64_t number) {
    Durability walk(base_);
    for (size_t place = 0; place <= journal_.size() && !Enough(); ++place) {
      if (place > 0) walk.Advance(journal_[place - 1]);
      if (only_place_ == kNever || place == only_place_) LookAt(walk, place, number);
    }
  }

  void LookAt(const Durability& walk, size_t place, uint64_t number) {
    Random random(seed_ + place * 1'000'003 + number * 7'919);
    SimDisk disk(walk.Crash(number, &random));
    Promises promises = promises_.At(place);
    bool counts = false;
    if (!IsNew(disk.base(), promises, 0, &counts)) return;
    Depth depth;
    depth.verify = number < 2 || random.Chance(30);
    depth.settle = number < 2 || random.Chance(10);
    depth.reopen = number < 2 || random.Chance(30);
    depth.rebuild = number < 2 || random.Chance(10);
    std::string fault = Inspect(&disk, 0, depth, &promises);
    for (int cuts = number < 2 ? 4 : 1; cuts > 0 && fault.empty(); --cuts) {
      fault = CutRecovery(disk, promises, &random);
    }
    if (fault.empty()) return;
    found_.faults.push_back("SATCHEL_CRASH_SEED=" + std::to_string(seed_) +
                            " SATCHEL_CRASH_STATE=" + std::to_string(place) + ":" +
                            std::to_string(number) + "\n  " + fault + Tail(journal_, place));
  }

  // Cuts the power a second time, while the disk was being recovered and used.
  std::string CutRecovery(const SimDisk& disk, Promises promises, Random* random) {
    const std::vector<Op>& journal = disk.journal();
    const size_t operations = journal.size();
    const size_t place = random->Below(operations + 1);
    Durability walk(disk.base());
    for (size_t i = 0; i < place; ++i) walk.Advance(journal[i]);
    SimDisk left(walk.Crash(random->Below(4), random));
    bool counts = false;
    if (!IsNew(left.base(), promises, place, &counts)) return {};
    found_.again += counts ? 1 : 0;
    const Depth depth{random->Chance(30), random->Chance(10), random->Chance(30),
                      random->Chance(10), RebuildsIndex(journal, place)};
    const std::string fault = Inspect(&left, place, depth, &promises);
    if (fault.empty()) return {};
    return fault + "\n  after a second power cut, at " + std::to_string(place) + " of the " +
           std::to_string(operations) + " operations of the recovery" + Tail(journal, place);
  }

  // Whether nobody looked at this image with these promises. It counts if nobody looked at it at
  // all.
  bool IsNew(const Image& image, const Promises& promises, size_t position, bool* counts) {
    const uint64_t digest = image.Digest();
    *counts = images_.insert(digest).second;
    if (*counts) found_.states.push_back(digest);
    return asked_.insert(Random(digest ^ promises.Digest(position)).Next()).second;
  }

  static std::string Tail(const std::vector<Op>& journal, size_t place) {
    std::string text;
    for (size_t i = place - std::min<size_t>(place, 8); i < place; ++i) {
      text += "\n    " + std::to_string(i) + " " + journal[i].ToString();
    }
    return text;
  }

  bool Enough() const { return found_.faults.size() >= kEnough; }

  const Image base_;
  const std::vector<Op> journal_;
  const Promises& promises_;
  const uint64_t seed_;
  size_t only_place_ = kNever;
  uint64_t only_number_ = 0;
  std::unordered_set<uint64_t> images_;  // their digests
  std::unordered_set<uint64_t> asked_;   // of images with what was promised of them
  Exploration found_;
};

}  // namespace

Exploration Explore(const SimDisk& disk, const Promises& promises, uint64_t seed, uint64_t states) {
  return Explorer(disk, promises, seed).Run(states);
}

}  // namespace satchel::sim
