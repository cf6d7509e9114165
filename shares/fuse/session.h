// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A libfuse session whose file system is Python's (policy.h), and the threads that serve it.
//
// There are as many threads as requests are under way, and one more that receives, up to a number;
// some of those that have nothing to do stay. A thread of a mount waits in a read of /dev/fuse; to
// end it, it is cancelled there and nowhere else, as libfuse's own loop does.
#ifndef SATCHEL_SHARES_FUSE_SESSION_H_
#define SATCHEL_SHARES_FUSE_SESSION_H_

#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "chunkstore/core/os/mutex.h"
#include "shares/fuse/killed.h"
#include "shares/fuse/locks.h"
#include "shares/fuse/policy.h"
#include "shares/fuse/stream.h"
#include "shares/fuse/tables.h"

namespace satchel {

class Session {
 public:
  // Owns `fd`, a mounted /dev/fuse. Raises OSError. With the GIL, as everything in this class that
  // does not say otherwise.
  static std::unique_ptr<Session> Mounted(py::object operations, int fd, unsigned threads);
  // Owns `fd`, a stream of FUSE messages. `init`: the INIT of a kernel that has had its reply, or
  // nothing. notified: the relay tells what notifications its kernel has taken; else there are
  // none.
  static std::unique_ptr<Session> Relayed(py::object operations, int fd, const std::string& init,
                                          bool notified, unsigned threads);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Serves until it is stopped, the file system is unmounted or the stream ends. Looks at signals;
  // what their handlers raise is raised when all threads are gone. Once only.
  void Run();
  void Stop();  // from any thread, with or without the GIL

  // -errno. Without the GIL. See session.py for what must not wait for them.
  int Invalidate(uint64_t file, int64_t offset, int64_t length);
  int InvalidateEntry(uint64_t parent, const std::string& name);

  // Of a relayed session; without the GIL.
  bool Drain(std::chrono::milliseconds most);
  void Resume();
  std::string init();  // the INIT message of the kernel at the other end; empty before it came
  // Of a mount: whether the kernel lets programs map its files with MAP_SHARED. Known when the
  // first call has come.
  bool maps_shared() const { return maps_shared_; }
  bool mounted() const { return stream_ == nullptr; }
  uint64_t refused() const { return stream_ == nullptr ? 0 : stream_->refused(); }

  // For the calls; without the GIL.
  static Session* Of(fuse_req_t request) {
    return static_cast<Session*>(fuse_req_userdata(request));
  }
  Policy& policy() { return policy_; }
  OpenFiles& files() { return files_; }
  OpenFolders& folders() { return folders_; }
  LockWaiters& locks() { return locks_; }

 private:
  struct Worker {
    Session* session = nullptr;
    pthread_t thread = 0;
    fuse_buf received = {};  // of a mount
    std::vector<char> message;
    bool done = false;
  };

  Session(py::object operations, unsigned threads);
  void Create();
  void SetInit(const std::string& init);
  ssize_t ReadDevice(int device, void* buffer, size_t size);
  ssize_t WriteDevice(int device, iovec* parts, int count);

  static void* Work(void* worker);
  void Serve(Worker* worker);
  bool ReceiveNext(Worker* worker, fuse_buf* buffer);
  bool StartWorker() REQUIRES(mutex_);
  bool GoOn(Worker* worker) EXCLUDES(mutex_);
  void JoinDone() EXCLUDES(mutex_);
  void EndWorkers() EXCLUDES(mutex_);
  void CloseNotifications() EXCLUDES(mutex_);
  template <typename Send>
  int Notify(const Send& send) EXCLUDES(mutex_);

  const unsigned most_threads_;
  Policy policy_;
  OpenFiles files_;
  OpenFolders folders_;
  LockWaiters locks_;
  KilledPrograms killed_;
  std::unique_ptr<Stream> stream_;
  bool notified_ = true;
  std::atomic<bool> maps_shared_{false};
  std::atomic<bool> told_init_{false};
  fuse_session* session_ = nullptr;
  int stop_ = -1;  // an eventfd

  Mutex mutex_;
  CondVar changed_;
  std::list<std::unique_ptr<Worker>> workers_ GUARDED_BY(mutex_);
  unsigned running_ GUARDED_BY(mutex_) = 0;
  unsigned idle_ GUARDED_BY(mutex_) = 0;
  bool ending_ GUARDED_BY(mutex_) = false;
  bool ran_ GUARDED_BY(mutex_) = false;
  bool notifies_ GUARDED_BY(mutex_) = true;
  unsigned notifying_ GUARDED_BY(mutex_) = 0;
  std::string init_ GUARDED_BY(mutex_);
};

// What is answered, by topic.
void AddFileCalls(fuse_lowlevel_ops* calls);
void AddFolderCalls(fuse_lowlevel_ops* calls);
void AddLockCalls(fuse_lowlevel_ops* calls);
void AddMarkCalls(fuse_lowlevel_ops* calls);
void AddNameCalls(fuse_lowlevel_ops* calls);

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_SESSION_H_
