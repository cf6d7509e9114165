// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The pacing without a kernel and without a clock. Prints one line per test; 1 on failure.
#include "testbed/link/direction.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

namespace satchel::link {
namespace {

constexpr int64_t kMs = 1'000'000;

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

struct Bench {
  explicit Bench(const Parameters& parameters, uint64_t seed = 1) : direction(&pool, seed) {
    direction.Set(parameters, 0);
  }

  void Arrive(int64_t now, size_t size, int64_t lateness = 0) {
    direction.Arrive(now, lateness, pool.Take(), size);
  }

  std::vector<int64_t> Drain() {
    std::vector<int64_t> times;
    while (direction.NextDelivery() != kNever) {
      times.push_back(direction.NextDelivery());
      direction.Delivered(true);
    }
    return times;
  }

  BufferPool pool;
  Direction direction;
};

void PacketsAreSerialised() {
  Bench bench({8'000'000, 5 * kMs});
  for (int i = 0; i < 3; ++i) bench.Arrive(0, 1000);  // 1 ms each
  CHECK((bench.Drain() == std::vector<int64_t>{6 * kMs, 7 * kMs, 8 * kMs}));
  CHECK(bench.direction.counters().packets == 3 && bench.direction.counters().bytes == 3000);
}

void AnIdleLinkSavesNothingUp() {
  Bench bench({8'000'000});
  bench.Arrive(100 * kMs, 1000);
  bench.Arrive(100 * kMs, 1000);
  CHECK((bench.Drain() == std::vector<int64_t>{101 * kMs, 102 * kMs}));
}

void ALateCallerCostsNoCapacity() {
  Bench bench({8'000'000});
  bench.Arrive(0, 1000);
  bench.Arrive(4 * kMs, 1000, 3 * kMs);   // the link fell idle at 1 ms, we should have looked then
  bench.Arrive(50 * kMs, 1000, 3 * kMs);  // it was idle long before: the packet came just now
  CHECK((bench.Drain() == std::vector<int64_t>{1 * kMs, 2 * kMs, 51 * kMs}));
}

void AFullQueueDrops() {
  Bench bench({8'000'000, 0, 0, 0, 2500});
  for (int i = 0; i < 5; ++i) bench.Arrive(0, 1000);
  CHECK(bench.direction.counters().drops == 3 && bench.direction.counters().dropped_bytes == 3000);
  bench.Arrive(1 * kMs, 1000);  // one has departed
  CHECK(bench.Drain().size() == 3);
}

void LossIsSeeded() {
  const Parameters lossy{0, 0, 0, 0.1};
  std::vector<uint64_t> drops;
  for (uint64_t seed : {7, 7, 8}) {
    Bench bench(lossy, seed);
    for (int i = 0; i < 10'000; ++i) bench.Arrive(i, 100);
    drops.push_back(bench.direction.counters().drops);
  }
  CHECK(drops[0] == drops[1]);
  CHECK(drops[0] > 900 && drops[0] < 1100 && drops[2] > 900 && drops[2] < 1100);
}

void JitterKeepsTheOrder() {
  Bench bench({0, 10 * kMs, 5 * kMs});
  for (int i = 0; i < 1000; ++i) bench.Arrive(i * kMs, 100);
  const std::vector<int64_t> times = bench.Drain();
  int early = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const int64_t delay = times[i] - static_cast<int64_t>(i) * kMs;
    CHECK(delay >= 5 * kMs && delay <= 15 * kMs);
    CHECK(i == 0 || times[i] >= times[i - 1]);
    early += delay < 10 * kMs ? 1 : 0;
  }
  CHECK(early > 100 && early < 500);
}

void ANewRateAppliesToWhatWaits() {
  Parameters parameters{8'000'000, 1 * kMs};
  Bench bench(parameters);
  for (int i = 0; i < 3; ++i) bench.Arrive(0, 1000);
  parameters.rate = 4'000'000;
  bench.direction.Set(parameters, 1 * kMs);
  bench.Arrive(1 * kMs, 1000);
  CHECK((bench.Drain() == std::vector<int64_t>{2 * kMs, 4 * kMs, 6 * kMs, 8 * kMs}));
}

void DownLosesWhatIsOnTheWay() {
  Parameters parameters{8'000'000, 5 * kMs};
  Bench bench(parameters);
  bench.Arrive(0, 1000);
  parameters.up = false;
  bench.direction.Set(parameters, 1 * kMs);
  bench.Arrive(2 * kMs, 1000);
  CHECK(bench.direction.NextDelivery() == kNever && bench.direction.counters().drops == 2);
  parameters.up = true;
  bench.direction.Set(parameters, 3 * kMs);
  bench.Arrive(3 * kMs, 1000);
  CHECK((bench.Drain() == std::vector<int64_t>{9 * kMs}));
}

void MemoryIsBounded() {
  Bench bench({0, 1'000'000 * kMs});
  for (size_t i = 0; i < kPacketsInFlight + 10; ++i) bench.Arrive(0, 40);
  CHECK(bench.direction.counters().drops == 10);
}

struct Test {
  const char* name;
  void (*run)();
};

constexpr Test kTests[] = {
    {"packets are serialised", PacketsAreSerialised},
    {"an idle link saves nothing up", AnIdleLinkSavesNothingUp},
    {"a late caller costs no capacity", ALateCallerCostsNoCapacity},
    {"a full queue drops", AFullQueueDrops},
    {"loss is seeded", LossIsSeeded},
    {"jitter keeps the order", JitterKeepsTheOrder},
    {"a new rate applies to what waits", ANewRateAppliesToWhatWaits},
    {"down loses what is on the way", DownLosesWhatIsOnTheWay},
    {"memory is bounded", MemoryIsBounded},
};

}  // namespace
}  // namespace satchel::link

int main() {
  for (const auto& test : satchel::link::kTests) {
    std::printf("%s\n", test.name);
    std::fflush(stdout);
    test.run();
  }
  return 0;
}
