// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Every call to the system fails, one after the other: once, for good, and after half of a write.
//
// The workload goes on after a step that failed, as a daemon would, and whatever is acknowledged
// afterwards counts. Then the fault is lifted, and the disk has to keep every promise: as it is,
// and after a power cut. A sync that failed has dropped what it should have saved, so a store that
// believes the next one loses what it acknowledges.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>

#include "tests/native/inspect.h"
#include "tests/native/workload.h"

namespace satchel::sim {
namespace {

struct Outcome {
  std::string fault;  // empty if all is well
  bool reached = false;
  bool noticed = false;  // some step said that it failed
  std::string call;      // that failed first
};

// Errors that a program shows have to say what was being done.
std::string Clear(const char* step, const Status& status) {
  if (!status.what().empty() && status.what().size() > 8) return {};
  return std::string("the error of step ") + step + " says nothing";
}

Outcome RunWith(const Fault& fault) {
  Outcome outcome;
  SimDisk disk(EmptyDisk());
  Promises promises;
  {
    Workload workload(&disk, &promises);
    disk.SetFault(fault);
    for (const Workload::Step& step : workload.Steps()) {
      const Status status = step.act();
      if (status.ok()) continue;
      outcome.noticed = true;
      outcome.fault = Clear(step.name, status);
      if (!outcome.fault.empty()) return outcome;
    }
    disk.Heal();
    outcome.fault = workload.LookAtAttached();
    if (!outcome.fault.empty()) return outcome;
    disk.SetFault(fault);
  }
  outcome.reached = disk.failed();
  outcome.call = disk.FailedCall();
  const size_t end = disk.Position();
  Durability walk(disk.base());
  for (const Op& op : disk.Journal()) walk.Advance(op);
  // 1 is what the processes saw last, 0 a power cut now.
  for (const uint64_t how : {1, 0}) {
    Random random(how);
    SimDisk left(how == 1 ? disk.Live() : walk.Crash(how, &random));
    Promises settled = promises.At(end);
    Depth depth;
    depth.verify = how == 0;
    outcome.fault = Inspect(&left, 0, depth, &settled);
    if (outcome.fault.empty()) continue;
    outcome.fault = std::string(how == 1 ? "as it is: " : "after a power cut: ") + outcome.fault +
                    "\n  call " + std::to_string(fault.site) + " failed: " + disk.FailedCall();
    return outcome;
  }
  return outcome;
}

// Calls that the workload makes without a fault.
uint64_t Sites(Fault::Calls calls) {
  SimDisk disk(EmptyDisk());
  Promises promises;
  const Status status = RunAll(&disk, &promises);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return disk.Calls(calls);
}

// LevelDB clears away later what it could not remove, and asks for a LOG that it does not get. It
// keeps the log that it has where it cannot begin another for a compaction. A read that fails once
// is read again the long way.
bool MayGoUnnoticed(const Fault& kind, const std::string& call) {
  if (kind.calls == Fault::Calls::kReads) return !kind.for_good;
  if (call.rfind("remove /store/index/", 0) == 0) return true;
  const bool log = call.size() > 4 && call.compare(call.size() - 4, 4, ".log") == 0;
  if (call.rfind("open /store/index/", 0) == 0 && log) return true;
  return call == "rename /store/index/LOG";
}

// By day every `stride`th site fails, others each day; nightly all of them.
void FailEverySite(const Fault& kind, uint64_t stride) {
  const uint64_t sites = Sites(kind.calls);
  ASSERT_GT(sites, 100u);
  if (std::getenv("SATCHEL_NIGHTLY") != nullptr) stride = 1;
  const uint64_t today = static_cast<uint64_t>(std::time(nullptr)) / 86400 % stride;
  uint64_t reached = 0;
  uint64_t noticed = 0;
  std::map<std::string, int> unnoticed;
  std::mutex mutex;  // guards what is above
  std::atomic<uint64_t> next{0};
  std::atomic<int> faults{0};
  const auto work = [&] {
    for (uint64_t site = next += stride; site + today < sites + stride && faults < 5;
         site = next += stride) {
      Fault fault = kind;
      fault.site = site - stride + today;
      const Outcome outcome = RunWith(fault);
      const std::lock_guard lock(mutex);
      reached += outcome.reached ? 1 : 0;
      noticed += outcome.noticed ? 1 : 0;
      if (outcome.reached && !outcome.noticed) ++unnoticed[outcome.call];
      if (outcome.fault.empty()) continue;
      ++faults;
      ADD_FAILURE() << "site " << fault.site << " of " << sites << ": " << outcome.fault;
    }
  };
  std::thread other(work);
  work();
  other.join();
  for (const auto& [call, count] : unnoticed) {
    EXPECT_TRUE(MayGoUnnoticed(kind, call)) << call << " failed, and nobody said so";
  }
  printf("%lu sites, %lu reached, %lu noticed\n", sites / stride, reached, noticed);
  EXPECT_GT(reached, sites / stride * 9 / 10);
}

Fault Kind(Fault::Calls calls, bool for_good, bool partial, int error) {
  Fault fault;
  fault.calls = calls;
  fault.for_good = for_good;
  fault.partial = partial;
  fault.error = error;
  return fault;
}

TEST(Faults, AWriteOrSyncThatFailsOnce) {
  FailEverySite(Kind(Fault::Calls::kChanges, false, false, EIO), 5);
}

TEST(Faults, AWriteThatIsShortOnceForLackOfSpace) {
  FailEverySite(Kind(Fault::Calls::kChanges, false, true, ENOSPC), 5);
}

TEST(Faults, ADiskThatIsFullFromSomeWriteOn) {
  FailEverySite(Kind(Fault::Calls::kChanges, true, true, ENOSPC), 5);
}

TEST(Faults, ADiskThatTakesNoMoreWrites) {
  FailEverySite(Kind(Fault::Calls::kChanges, true, false, EROFS), 5);
}

TEST(Faults, AReadThatFailsOnce) {
  FailEverySite(Kind(Fault::Calls::kReads, false, false, EIO), 14);
}

TEST(Faults, ADiskThatCannotBeReadAnyMore) {
  FailEverySite(Kind(Fault::Calls::kReads, true, false, EIO), 14);
}

// What is settled when the error comes is no longer where the map of an attached volume says.
TEST(Faults, ASettlingThatFailsLeavesNoPackThatTheNextCannotRemove) {
  uint64_t failed = 0;
  for (uint64_t call = 0;; ++call) {
    SimDisk disk(EmptyDisk());
    Promises promises;
    Workload workload(&disk, &promises);
    const std::vector<Workload::Step> steps = workload.Steps();
    size_t i = 0;
    for (; std::string(steps[i].name) != "settle"; ++i) ASSERT_TRUE(steps[i].act().ok());
    Fault fault;
    fault.site = disk.Calls(Fault::Calls::kChanges) + call;
    disk.SetFault(fault);
    const bool noticed = !steps[i].act().ok();
    if (!disk.failed()) break;
    failed += noticed ? 1 : 0;
    const std::string what = "after " + disk.FailedCall() + " failed: ";
    disk.Heal();
    for (const char* name : {"reopen", "settle"}) {
      const auto step = std::find_if(steps.begin(), steps.end(), [&](const Workload::Step& each) {
        return std::string(each.name) == name;
      });
      const Status status = step->act();
      EXPECT_TRUE(status.ok()) << what << status.ToString();
    }
    EXPECT_EQ(workload.LookAtAttached(), "") << what;
  }
  EXPECT_GT(failed, 10u);
}

// LevelDB compacts without an answer, and refuses all writes after an error.
TEST(Faults, ATableOfTheIndexThatSettlingCannotWriteIsAnError) {
  const std::string content = MakeContent(1, 12);
  const auto* blocks = reinterpret_cast<const uint8_t*>(content.data());
  int tables = 0;
  for (uint64_t call = 0;; ++call) {
    SimDisk disk(EmptyDisk());
    std::unique_ptr<Store> store;
    ASSERT_TRUE(Store::Create(&disk, kStorePath).ok());
    ASSERT_TRUE(Store::Open(&disk, kStorePath, SmallOptions(), &store).ok());
    std::vector<ChunkRef> refs(12);
    ASSERT_TRUE(store->Put(blocks, 12, refs.data()).ok());
    ASSERT_TRUE(store->Sync().ok());
    Fault fault;
    fault.site = disk.Calls(Fault::Calls::kChanges) + call;
    disk.SetFault(fault);
    SettleReport report;
    const Status status = SettleQuickly(store.get(), &report);
    if (!disk.failed()) break;
    if (disk.FailedCall().find(".ldb") == std::string::npos) continue;
    ++tables;
    EXPECT_FALSE(status.ok()) << disk.FailedCall() << " failed, and nobody said so";
  }
  EXPECT_GE(tables, 3);  // made, written, synced
}

}  // namespace
}  // namespace satchel::sim
