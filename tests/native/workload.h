// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A life of a store in small: everything that home does with one, on a SimDisk, with what was
// acknowledged on the way. Each step stands on its own, so that the workload can go on after one
// of them has failed.
//
// Life 0 has all steps. Other lives have other content, volumes and packs of other sizes, and leave
// out some of the steps without which the rest can be done. In every other pair of lives, 2 and 3,
// 6 and 7, and so on, the medium is sealed, and gets another key on the way.
#ifndef SATCHEL_TESTS_NATIVE_WORKLOAD_H_
#define SATCHEL_TESTS_NATIVE_WORKLOAD_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/media/media.h"
#include "chunkstore/core/media/sealed_env.h"
#include "chunkstore/core/store/store.h"
#include "tests/native/promises.h"
#include "tests/native/sim_disk.h"

namespace satchel::sim {

constexpr char kStorePath[] = "/store";
constexpr char kNamesPath[] = "/names";
constexpr char kMediaPath[] = "/media";

// Small packs, so that a few dozen chunks fill several.
ChunkOptions SmallOptions();

// Settles all of the store, with little compression.
Status SettleQuickly(Store* store, SettleReport* report);

// Blocks of volumes: a mix of what does not compress, what does, and zeros. Equal seeds give equal
// content; a block depends on the seed and its number only.
std::string MakeBlock(uint64_t seed, uint64_t number);
std::string MakeContent(uint64_t seed, uint64_t blocks);

// The folders that are there before the first step.
Image EmptyDisk();

// A name for a root, as a file that is written like a manifest.
std::string NameText(const TableRoot& root);
Status WriteName(Env* env, const std::string& name, const TableRoot& root);
bool ParseName(const std::string& text, TableRoot* root);

class Workload {
 public:
  Workload(SimDisk* disk, Promises* promises, uint64_t life = 0);

  struct Step {
    const char* name;
    std::function<Status()> act;
    bool may_lack = false;
  };

  // In the order in which they are to be done.
  std::vector<Step> Steps();

  // Reads the attached volume through its block map, as the nbdkit plugin does: from the packs,
  // without asking the store. Empty, or what is wrong with it.
  std::string LookAtAttached() const;

 private:
  Status OpenStore();
  Status PutChunks(uint64_t seed, size_t n);
  Status Import(const std::string& name, uint64_t seed, uint64_t blocks, const std::string& base);
  Status Checkpoint(const std::string& from, const std::string& to, uint64_t seed);
  Status Forget(const std::string& name);
  Status Prune();
  Status Relieve();
  Status KeepNamed(std::vector<TableRoot>* keep);
  Status Verify();
  Status Attach(const std::string& name);
  Status Settle();
  Status OpenMedia();
  Env* MediaEnv() { return sealed_ == nullptr ? static_cast<Env*>(disk_) : sealed_.get(); }
  void UseKeys(std::vector<SealKey> keys);
  Status Carry(const std::string& name);
  Status Reachable(const std::string& name, std::vector<ChunkRef>* refs);
  Status Name(const std::string& name, const TableRoot& root, std::string content);
  Status NeedStore() const;

  std::vector<Step> AllSteps();

  SimDisk* const disk_;
  Promises* const promises_;
  const uint64_t life_;
  uint64_t blocks_ = 70;  // of the larger volume
  ChunkOptions options_ = SmallOptions();
  std::unique_ptr<Store> store_;
  std::unique_ptr<SealedEnv> sealed_;
  std::unique_ptr<Media> media_;
  std::unique_ptr<BlockMap> attached_;
  std::shared_ptr<const std::string> attached_content_;
};

// Does all steps on an empty disk without faults. The error of the first step that fails.
Status RunAll(SimDisk* disk, Promises* promises, uint64_t life = 0);

}  // namespace satchel::sim

#endif  // SATCHEL_TESTS_NATIVE_WORKLOAD_H_
