// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "tests/native/explore.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/native/inspect.h"

namespace satchel::sim {
namespace {

constexpr uint64_t kSeed = 20261121;
constexpr size_t kEnough = 5;  // faults

// States of a place that are looked at before the next place. All places have had so many before
// one gets more, so a long exploration that is cut short has been everywhere.
constexpr uint64_t kRound = 64;

constexpr uint64_t kReportEvery = 100'000;  // states

uint64_t Seed() {
  const char* text = std::getenv("SATCHEL_CRASH_SEED");
  return text == nullptr ? kSeed : std::strtoull(text, nullptr, 10);
}

class Explorer {
 public:
  Explorer(const SimDisk& disk, const Promises& promises, size_t begin, uint64_t states)
      : base_(disk.base()),
        journal_(disk.Journal()),
        promises_(promises),
        begin_(begin),
        each_(std::max<uint64_t>(2, states / (journal_.size() - begin + 1))) {
    found_.places = journal_.size() - begin + 1;
    if (const char* only = std::getenv("SATCHEL_CRASH_STATE")) {
      char* end = nullptr;
      only_place_ = std::strtoull(only, &end, 10);
      only_number_ = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 0;
    }
  }

  Exploration Run() {
    const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([this, i, count] { Work(i, count); });
    }
    for (std::thread& thread : threads) thread.join();
    return found_;
  }

 private:
  void Work(unsigned worker, unsigned workers) {
    for (uint64_t first = 0; first < each_ && !Enough(); first += kRound) {
      Round(worker, workers, first);
    }
  }

  void Round(unsigned worker, unsigned workers, uint64_t first) {
    Durability walk(base_);
    for (size_t place = 0; place <= journal_.size() && !Enough(); ++place) {
      if (place > 0) walk.Advance(journal_[place - 1]);
      if (place < begin_ || place % workers != worker) continue;
      if (only_place_ != kNever && place != only_place_) continue;
      // With nothing pending all states of a place are one.
      const uint64_t numbers = walk.pending() == 0 ? std::min<uint64_t>(each_, 8) : each_;
      const uint64_t end = std::min(numbers, first + kRound);
      for (uint64_t number = first; number < end && !Enough(); ++number) {
        if (only_place_ != kNever && number != only_number_) continue;
        LookAt(walk, place, number);
      }
    }
  }

  void LookAt(const Durability& walk, size_t place, uint64_t number) {
    Random random(Seed() + place * 1'000'003 + number * 7'919);
    SimDisk disk(walk.Crash(number, &random));
    Depth depth;
    depth.verify = number < 2 || random.Chance(30);
    depth.settle = number < 2 || random.Chance(10);
    depth.reopen = number < 2 || random.Chance(30);
    depth.rebuild = number < 2 || random.Chance(10);
    Promises promises = promises_.At(place);
    std::string fault = Inspect(&disk, 0, depth, &promises);
    const bool again = fault.empty() && random.Chance(50);
    if (again) {
      fault = CutRecovery(disk, &promises, &random);
    }
    Count(place, number, again, fault);
  }

  // Cuts the power a second time, while the disk was being recovered and used.
  std::string CutRecovery(const SimDisk& disk, Promises* promises, Random* random) {
    std::vector<Op> journal = disk.Journal();
    const size_t operations = journal.size();
    const size_t place = random->Below(operations + 1);
    journal.resize(place);
    Durability walk(disk.base());
    for (const Op& op : journal) walk.Advance(op);
    SimDisk left(walk.Crash(random->Below(4), random));
    const Depth depth{random->Chance(30), random->Chance(10), random->Chance(30),
                      random->Chance(10), RebuildsIndex(journal)};
    const std::string fault = Inspect(&left, place, depth, promises);
    if (fault.empty()) return {};
    return fault + "\n  after a second power cut, at " + std::to_string(place) + " of the " +
           std::to_string(operations) + " operations of the recovery" + Tail(journal, place);
  }

  void Count(size_t place, uint64_t number, bool again, const std::string& fault) {
    const std::lock_guard lock(mutex_);
    const uint64_t before = found_.states;
    found_.states += again ? 2 : 1;
    found_.again += again ? 1 : 0;
    if (before / kReportEvery != found_.states / kReportEvery) {
      printf("%lu states so far\n", found_.states);
      fflush(stdout);
    }
    if (fault.empty()) return;
    found_.faults.push_back("SATCHEL_CRASH_SEED=" + std::to_string(Seed()) +
                            " SATCHEL_CRASH_STATE=" + std::to_string(place) + ":" +
                            std::to_string(number) + "\n  " + fault + Tail(journal_, place));
  }

  static std::string Tail(const std::vector<Op>& journal, size_t place) {
    std::string text;
    for (size_t i = place - std::min<size_t>(place, 8); i < place; ++i) {
      text += "\n    " + std::to_string(i) + " " + journal[i].ToString();
    }
    return text;
  }

  bool Enough() {
    const std::lock_guard lock(mutex_);
    return found_.faults.size() >= kEnough;
  }

  const Image base_;
  const std::vector<Op> journal_;
  const Promises& promises_;
  const size_t begin_;
  const uint64_t each_;  // states of one place
  size_t only_place_ = kNever;
  uint64_t only_number_ = 0;

  std::mutex mutex_;  // guards what follows
  Exploration found_;
};

}  // namespace

Exploration Explore(const SimDisk& disk, const Promises& promises, size_t begin, uint64_t states) {
  return Explorer(disk, promises, begin, states).Run();
}

uint64_t WantedStates(uint64_t states) {
  return std::getenv("SATCHEL_NIGHTLY") == nullptr ? states : states * 100;
}

}  // namespace satchel::sim
