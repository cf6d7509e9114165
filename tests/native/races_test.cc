// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Many short processes that fight for one store, some of which are killed while they have it; and
// what is left of a holder that is no more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>

#include "chunkstore/core/store/store.h"
#include "tests/native/scratch.h"
#include "tests/native/workload.h"

extern char** environ;

namespace satchel::sim {
namespace {

constexpr int kProcesses = 250;
constexpr int kRounds = 4;  // of a process
constexpr int kAtOnce = 8;
constexpr char kFolderVariable[] = "SATCHEL_RACE_FOLDER";
constexpr char kNumberVariable[] = "SATCHEL_RACE_NUMBER";

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Starts the test Races.DISABLED_Contender in a process of its own.
pid_t StartContender(const std::string& folder, int number) {
  setenv(kFolderVariable, folder.c_str(), 1);
  setenv(kNumberVariable, std::to_string(number).c_str(), 1);
  const std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=Races.DISABLED_Contender";
  std::string disabled = "--gtest_also_run_disabled_tests";
  std::string brief = "--gtest_brief=1";
  std::string name = program;
  posix_spawn_file_actions_t silent;
  posix_spawn_file_actions_init(&silent);
  posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  char* argv[] = {name.data(), filter.data(), disabled.data(), brief.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &silent, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&silent);
  return error == 0 ? pid : -1;
}

// The store, once nobody else has it.
Status OpenPatiently(const std::string& path, Random* random, std::unique_ptr<Store>* store) {
  for (int i = 0; i < 20'000; ++i) {
    const Status status = Store::Open(PosixEnv(), path, SmallOptions(), store);
    if (!status.Is(Kind::kLocked)) return status;
    // The holder's process id, or nothing in the moment before it is written.
    EXPECT_EQ(status.why().find_first_not_of("0123456789"), std::string::npos) << status.why();
    usleep(static_cast<useconds_t>(random->Below(3'000)));
  }
  return Status::Make(Kind::kLocked, "nobody gives the store up");
}

// Who reads does so while nobody writes, or is told that somebody does.
void ReadOnce(const std::string& folder) {
  std::unique_ptr<Store> store;
  const Status opened = Store::OpenToRead(PosixEnv(), folder + "/store", &store);
  if (opened.Is(Kind::kLocked)) return;
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  ASSERT_NE(access((folder + "/inside").c_str(), F_OK), 0) << "a reader has it beside a writer";
  VerifyReport report;
  ASSERT_TRUE(store->Verify(nullptr, &report).ok());
  EXPECT_TRUE(report.bad.empty() && report.dangling.empty());
  std::ofstream(folder + "/read", std::ios::app | std::ios::binary) << 'r' << std::flush;
}

TEST(Races, DISABLED_Contender) {
  const char* folder_text = std::getenv(kFolderVariable);
  ASSERT_NE(folder_text, nullptr);
  const std::string folder = folder_text;
  const int number = std::atoi(std::getenv(kNumberVariable));
  Random random(static_cast<uint64_t>(number));
  for (int round = 0; round < kRounds; ++round) {
    ReadOnce(folder);
    std::unique_ptr<Store> store;
    const Status opened = OpenPatiently(folder + "/store", &random, &store);
    ASSERT_TRUE(opened.ok()) << opened.ToString();
    const std::string inside = folder + "/inside";
    const int alone = open(inside.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(alone, 0) << "two processes have the store";
    close(alone);
    std::string block = MakeBlock(static_cast<uint64_t>(number), static_cast<uint64_t>(round));
    block[0] = 'x';  // not zero
    ChunkRef ref;
    ASSERT_TRUE(store->Put(reinterpret_cast<const uint8_t*>(block.data()), 1, &ref).ok());
    ASSERT_TRUE(store->Sync().ok());
    std::ofstream(folder + "/acknowledged", std::ios::app | std::ios::binary)
        .write(reinterpret_cast<const char*>(ref.bytes), kChunkRefSize)
        .flush();
    ASSERT_EQ(unlink(inside.c_str()), 0);
    if (round == kRounds - 1 && random.Chance(25)) raise(SIGKILL);
  }
}

TEST(Races, AThousandOpeningsHaveOneWriterEachAndNoReaderBesideIt) {
  const Scratch scratch;
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Create(PosixEnv(), scratch.path() + "/store").ok());
  // Who reads makes no index.
  ASSERT_TRUE(Store::Open(PosixEnv(), scratch.path() + "/store", SmallOptions(), &store).ok());
  store.reset();
  std::set<pid_t> running;
  int started = 0;
  int killed = 0;
  while (started < kProcesses || !running.empty()) {
    while (started < kProcesses && running.size() < kAtOnce) {
      const pid_t pid = StartContender(scratch.path(), started++);
      ASSERT_GT(pid, 0);
      running.insert(pid);
    }
    int how = 0;
    const pid_t ended = wait(&how);
    ASSERT_EQ(running.erase(ended), 1u);
    killed += WIFSIGNALED(how) ? 1 : 0;
    const bool fine = WIFSIGNALED(how) ? WTERMSIG(how) == SIGKILL : WEXITSTATUS(how) == 0;
    EXPECT_TRUE(fine) << "a contender failed";
  }
  EXPECT_GT(killed, kProcesses / 10);
  EXPECT_GT(Slurp(scratch.path() + "/read").size(), size_t{kProcesses} / 10);
  const std::string acknowledged = Slurp(scratch.path() + "/acknowledged");
  ASSERT_EQ(acknowledged.size(), size_t{kProcesses} * kRounds * kChunkRefSize);
  ASSERT_TRUE(Store::Open(PosixEnv(), scratch.path() + "/store", SmallOptions(), &store).ok());
  std::vector<uint8_t> block(kBlockSize);
  for (size_t i = 0; i < acknowledged.size(); i += kChunkRefSize) {
    ChunkRef ref;
    acknowledged.copy(reinterpret_cast<char*>(ref.bytes), kChunkRefSize, i);
    ASSERT_TRUE(store->Get(ref, block.data()).ok()) << "an acknowledged chunk is lost";
  }
  VerifyReport report;
  ASSERT_TRUE(store->Verify(nullptr, &report).ok());
  EXPECT_TRUE(report.bad.empty() && report.dangling.empty());
}

class StaleLock : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Store::Create(PosixEnv(), path()).ok()); }

  std::string path() const { return scratch_.path() + "/store"; }

  void ExpectOpens() {
    std::unique_ptr<Store> store;
    const Status status = Store::Open(PosixEnv(), path(), SmallOptions(), &store);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(Slurp(path() + "/LOCK"), std::to_string(getpid()) + "\n");
  }

  const Scratch scratch_;
};

TEST_F(StaleLock, OfAProcessIdThatSomebodyElseHasNow) {
  std::ofstream(path() + "/LOCK") << getppid() << "\n";
  ExpectOpens();
}

TEST_F(StaleLock, OfAProcessThatIsNoMore) {
  std::ofstream(path() + "/LOCK") << 4'000'000 << "\n";
  ExpectOpens();
}

TEST_F(StaleLock, ThatIsGarbage) {
  std::ofstream(path() + "/LOCK") << std::string(5'000, 'x');
  ExpectOpens();
}

TEST_F(StaleLock, OfAHolderThatWasKilled) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::unique_ptr<FileLock> lock;
    if (!PosixEnv()->Lock(path() + "/LOCK", &lock).ok()) _exit(1);
    raise(SIGKILL);
  }
  int how = 0;
  ASSERT_EQ(waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFSIGNALED(how));
  EXPECT_EQ(Slurp(path() + "/LOCK"), std::to_string(child) + "\n");
  ExpectOpens();
}

// Nothing in a store depends on the time of day.
TEST_F(StaleLock, AfterTheClockJumped) {
  for (const time_t when : {time_t{0}, time_t{4'102'444'800}}) {
    ExpectOpens();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      const timespec times[2] = {{when, 0}, {when, 0}};
      ASSERT_EQ(utimensat(AT_FDCWD, entry.path().c_str(), times, 0), 0);
    }
  }
  ExpectOpens();
}

}  // namespace
}  // namespace satchel::sim
