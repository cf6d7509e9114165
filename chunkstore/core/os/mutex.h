// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Locks that say what they guard. The words in capitals are clang's thread safety annotations: a
// member that is GUARDED_BY a mutex is touched only by who holds it, a function that REQUIRES one
// is called only by who does, and one that EXCLUDES it only by who does not. `scripts/check`
// compiles chunkstore/ and volumes/plugin/ with -Wthread-safety -Werror; other compilers see
// nothing.
//
// Constructors and destructors are not looked at: nobody else has the object then. A lambda is
// looked at as a function of its own, so one that runs under a lock says REQUIRES too.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_MUTEX_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#ifdef __clang__
#define SATCHEL_ANNOTATE(x) __attribute__((x))
#else
#define SATCHEL_ANNOTATE(x)
#endif

#define CAPABILITY(name) SATCHEL_ANNOTATE(capability(name))
#define SCOPED_CAPABILITY SATCHEL_ANNOTATE(scoped_lockable)
#define GUARDED_BY(mutex) SATCHEL_ANNOTATE(guarded_by(mutex))
#define PT_GUARDED_BY(mutex) SATCHEL_ANNOTATE(pt_guarded_by(mutex))
#define ACQUIRED_BEFORE(...) SATCHEL_ANNOTATE(acquired_before(__VA_ARGS__))
#define REQUIRES(...) SATCHEL_ANNOTATE(requires_capability(__VA_ARGS__))
#define REQUIRES_SHARED(...) SATCHEL_ANNOTATE(requires_shared_capability(__VA_ARGS__))
#define EXCLUDES(...) SATCHEL_ANNOTATE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) SATCHEL_ANNOTATE(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...) SATCHEL_ANNOTATE(acquire_shared_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) SATCHEL_ANNOTATE(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) SATCHEL_ANNOTATE(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...) SATCHEL_ANNOTATE(release_shared_capability(__VA_ARGS__))
#define ASSERT_CAPABILITY(...) SATCHEL_ANNOTATE(assert_capability(__VA_ARGS__))

namespace satchel {

class CAPABILITY("mutex") Mutex {
 public:
  void Lock() ACQUIRE() { mutex_.lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }

  // For what runs under somebody else's lock, where clang cannot see that it is the same one.
  void AssertHeld() const ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Many may share it, or one may have it alone.
class CAPABILITY("mutex") SharedMutex {
 public:
  void Lock() ACQUIRE() { mutex_.lock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }
  void LockShared() ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void UnlockShared() RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a mutex as long as it lives.
class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() RELEASE() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Has a shared mutex alone as long as it lives.
class SCOPED_CAPABILITY AloneLock {
 public:
  explicit AloneLock(SharedMutex* mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~AloneLock() RELEASE() { mutex_->Unlock(); }
  AloneLock(const AloneLock&) = delete;
  AloneLock& operator=(const AloneLock&) = delete;

 private:
  SharedMutex* const mutex_;
};

// Shares a shared mutex as long as it lives.
class SCOPED_CAPABILITY SharedLock {
 public:
  explicit SharedLock(SharedMutex* mutex) ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_->LockShared();
  }
  ~SharedLock() RELEASE() { mutex_->UnlockShared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex* const mutex_;
};

// Waiting gives the mutex up meanwhile. It may end for no reason, so whoever waits asks again for
// what it waits for.
class CondVar {
 public:
  void Wait(Mutex* mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    changed_.wait(lock);
    (void)lock.release();
  }

  // false once it is `until`.
  bool WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point until) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool in_time = changed_.wait_until(lock, until) == std::cv_status::no_timeout;
    (void)lock.release();
    return in_time;
  }

  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_MUTEX_H_
