// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The shares in a guest: a FUSE mount whose kernel messages go to the host through a port of their
// own, and the answers back. Everything that must survive a checkpoint is in the guest's memory:
// the kernel's inodes and open files, the first exchange with a host (FUSE_INIT), and the requests
// that have no answer yet.
//
// A host attaches with its mark (host_end.h). Behind its own the guest sends records,
//
//    0  u32  length n of the FUSE message
//    4  u16  kind, ShareRecord
//    6  u16  0
//    8  u64  the operation under way when the kernel asked, 0 between two of them
//   16   n   the message; for kShareInit the request and the reply to it, one after the other
//
// first of all kShareInit if there was a host before, then every request without an answer, in the
// order of the kernel's numbers, then new ones. Behind its mark the host sends FUSE replies. All
// numbers are little-endian.
//
// A thread of its own relays. The agent's one may wait for a program that waits for its answer: the
// output of a task is a pipe, which is locked while a program splices a file of a share into it.
#ifndef SATCHEL_REPLAY_AGENT_SHARES_H_
#define SATCHEL_REPLAY_AGENT_SHARES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "replay/agent/host_end.h"
#include "replay/agent/sys.h"

namespace satchel {

inline constexpr size_t kShareRecordHeaderSize = 16;
inline constexpr size_t kMaxShareMessage = (1u << 20) + 4096;

enum ShareRecord : uint16_t {
  kShareInit = 1,     // what a host has answered to FUSE_INIT: a host after it is told
  kShareRequest = 2,  // a request of the kernel
};

class Shares {
 public:
  // where: the mount point; empty in a guest without shares, in which nothing happens.
  Shares(Port port, std::string where) : host_(std::move(port)), where_(std::move(where)) {}
  // Ends the thread and unmounts; for agents that are not PID 1.
  ~Shares();
  Shares(const Shares&) = delete;
  Shares& operator=(const Shares&) = delete;

  // Mounts, and begins to relay. What is asked of the mount waits until a host has attached. Call
  // once, before anything else.
  void Mount();

  // What is being executed from now on, 0 for nothing.
  void SetOperation(uint64_t operation) { operation_ = operation; }

  // A new host. False: *error says why there can be none.
  bool Attach(std::string_view mark, std::string* error);

  // Take no new requests from the kernel until GoOn() or Attach().
  void Settle() { SetSettling(true); }
  void GoOn() { SetSettling(false); }

  // Whether every request has its answer, except for those that wait for a lock of somebody else.
  bool Settled();

 private:
  struct PendingRequest {
    uint32_t opcode = 0;
    std::shared_ptr<const std::string> record;
    std::shared_ptr<const std::string> interrupt;  // that the asker was interrupted, or null
  };

  // All below is called with the lock held, but Run() and SetSettling(), which take it.
  void Run();
  void SetSettling(bool settling);
  void Wake();
  bool MayTake() const;
  void ReadDevice();
  void Take(std::string_view message);
  void ReadPort();
  void PassReplies();
  void PassReply(std::string_view reply);

  std::thread thread_;
  std::atomic<uint64_t> operation_{0};
  std::mutex lock_;  // held for moments: nothing waits with it
  bool stopping_ = false;
  Fd wake_;

  HostEnd host_;
  const std::string where_;
  std::string problem_;
  Fd device_;
  std::vector<char> buffer_;

  bool settling_ = false;

  std::string init_request_;
  std::shared_ptr<const std::string> init_;
  std::map<uint64_t, PendingRequest> unanswered_;
  size_t unanswered_bytes_ = 0;
};

}  // namespace satchel

#endif  // SATCHEL_REPLAY_AGENT_SHARES_H_
