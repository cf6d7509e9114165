// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/session.h"

#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <stdexcept>
#include <utility>

#include "shares/fuse/mappings.h"
#include "shares/fuse/message.h"

namespace satchel {
namespace {

constexpr int kSignalInterval = 200;        // milliseconds between two looks at signals
constexpr unsigned kIdleThreads = 10;       // so many may wait for requests
constexpr std::chrono::seconds kTaken(30);  // for a guest's kernel to take a notification

[[noreturn]] void RaiseErrno(int error, const char* what) {
  errno = error;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, what);
  throw py::error_already_set();
}

void Init(void*, fuse_conn_info* connection) {
  // A truncation is a call of its own, and the kernel takes set-id bits away by another.
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_HANDLE_KILLPRIV);
  // What the kernel caches is good until the session says otherwise, not until a time changes.
  if ((connection->capable & FUSE_CAP_EXPLICIT_INVAL_DATA) != 0) {
    connection->want &= ~static_cast<unsigned>(FUSE_CAP_AUTO_INVAL_DATA);
    connection->want |= FUSE_CAP_EXPLICIT_INVAL_DATA;
  }
  connection->max_write = std::min<unsigned>(connection->max_write, kMaxPayload);
}

const fuse_lowlevel_ops& Calls() {
  static const fuse_lowlevel_ops calls = [] {
    fuse_lowlevel_ops made = {};
    made.init = &Init;
    AddFileCalls(&made);
    AddFolderCalls(&made);
    AddLockCalls(&made);
    AddMarkCalls(&made);
    AddNameCalls(&made);
    return made;
  }();
  return calls;
}

ssize_t ReceiveNothing(int, void*, size_t, void*) { return 0; }

}  // namespace

// So that folders opened through another session are known not to be this one's.
OpenFolders::OpenFolders() : last_(static_cast<uint64_t>(std::random_device()()) << 32) {}

Session::Session(py::object operations, unsigned threads)
    : most_threads_(std::max(threads, 1U)), policy_(std::move(operations)) {
  stop_ = eventfd(0, EFD_CLOEXEC);
  if (stop_ < 0) RaiseErrno(errno, "eventfd");
}

Session::~Session() {
  if (session_ != nullptr) {
    const py::gil_scoped_release released;
    fuse_session_destroy(session_);
  }
  if (stop_ >= 0) close(stop_);
}

void Session::Create() {
  char name[] = "satchel";
  char* argv[] = {name, nullptr};
  fuse_args args = FUSE_ARGS_INIT(1, argv);
  session_ = fuse_session_new(&args, &Calls(), sizeof(Calls()), this);
  fuse_opt_free_args(&args);
  if (session_ == nullptr) RaiseErrno(ENOMEM, "fuse_session_new");
}

std::unique_ptr<Session> Session::Mounted(py::object operations, int fd, unsigned threads) {
  std::unique_ptr<Session> made(new Session(std::move(operations), threads));
  made->Create();
  fuse_custom_io io = {};
  io.writev = [](int device, iovec* parts, int count, void* session) {
    return static_cast<Session*>(session)->WriteDevice(device, parts, count);
  };
  io.read = [](int device, void* buffer, size_t size, void* session) {
    return static_cast<Session*>(session)->ReadDevice(device, buffer, size);
  };
  if (fuse_session_custom_io(made->session_, &io, fd) != 0) {
    RaiseErrno(ENOMEM, "fuse_session_custom_io");
  }
  return made;
}

// A cancellation point, as read(2) is.
ssize_t Session::ReadDevice(int device, void* buffer, size_t size) {
  const ssize_t got = read(device, buffer, size);
  if (got <= 0) return got;
  if (OffersMappings(buffer, static_cast<size_t>(got))) maps_shared_ = true;
  killed_.Received(buffer, static_cast<size_t>(got));
  return got;
}

ssize_t Session::WriteDevice(int device, iovec* parts, int count) {
  if (!killed_.Replies(parts, count)) {  // as the kernel says it of a request that is over
    errno = ENOENT;
    return -1;
  }
  if (maps_shared_ && !told_init_ && IsInitReply(parts, count)) {
    told_init_ = true;
    const std::vector<char> init = WithMappings(parts, count);
    return write(device, init.data(), init.size());
  }
  return writev(device, parts, count);
}

std::unique_ptr<Session> Session::Relayed(py::object operations, int fd, const std::string& init,
                                          bool notified, unsigned threads) {
  std::unique_ptr<Session> made(new Session(std::move(operations), threads));
  made->stream_ = std::make_unique<Stream>(fd, dup(made->stop_));
  made->notified_ = notified;
  const int error = made->stream_->Prepare();
  if (error != 0) RaiseErrno(error, "relay");
  made->Create();
  fuse_custom_io io = {};
  io.writev = [](int, iovec* parts, int count, void* session) {
    return static_cast<Session*>(session)->stream_->Send(parts, count);
  };
  io.read = &ReceiveNothing;
  // libfuse closes what it is given, and never uses it: the stream does.
  if (fuse_session_custom_io(made->session_, &io, dup(made->stop_)) != 0) {
    RaiseErrno(ENOMEM, "fuse_session_custom_io");
  }
  if (!init.empty()) made->SetInit(init);
  return made;
}

void Session::SetInit(const std::string& init) {
  std::vector<char> message(init.begin(), init.end());
  const bool whole = message.size() >= sizeof(fuse_in_header) && message.size() <= kMaxMessage;
  if (!whole || CheckMessage(message.data(), message.size()) != Verdict::kInit) {
    throw py::value_error("this is no INIT message");
  }
  message.resize(message.size() + kSlack);
  stream_->Swallow();
  fuse_buf buffer = {};
  buffer.mem = message.data();
  buffer.size = init.size();
  fuse_session_process_buf(session_, &buffer);
  const MutexLock lock(&mutex_);
  init_ = init;
}

std::string Session::init() {
  const MutexLock lock(&mutex_);
  return init_;
}

void* Session::Work(void* worker) {
  // First of all: who is cancelled while it waits for the GIL takes Python's mutex along.
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  auto* const self = static_cast<Worker*>(worker);
  const Attached attached;
  self->session->Serve(self);
  return nullptr;
}

// False when there is nothing more to serve.
bool Session::ReceiveNext(Worker* worker, fuse_buf* buffer) {
  if (stream_ == nullptr) {
    int got;
    do {
      if (fuse_session_exited(session_) != 0) return false;
      pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
      got = fuse_session_receive_buf(session_, &worker->received);
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    } while (got == -EINTR || got == -EAGAIN);
    *buffer = worker->received;
    return got > 0;
  }
  bool is_init = false;
  worker->message.resize(kMaxMessage + kSlack);
  const ssize_t size = stream_->Receive(&worker->message, &is_init);
  if (size <= 0) return false;
  *buffer = {};
  buffer->mem = worker->message.data();
  buffer->size = static_cast<size_t>(size);
  if (is_init) {
    const MutexLock lock(&mutex_);
    init_.assign(worker->message.data(), buffer->size);
  }
  return true;
}

// Cancellation is disabled, but for the wait for a message.
void Session::Serve(Worker* worker) {
  fuse_buf buffer = {};
  while (ReceiveNext(worker, &buffer)) {
    {
      const MutexLock lock(&mutex_);
      if (ending_) break;
      --idle_;
      if (idle_ == 0 && running_ < most_threads_) StartWorker();
    }
    fuse_session_process_buf(session_, &buffer);
    if (!GoOn(worker)) return;
  }
  Stop();
}

// False when there are threads enough without this one, which is then done.
bool Session::GoOn(Worker* worker) {
  const MutexLock lock(&mutex_);
  ++idle_;
  if (idle_ <= kIdleThreads || ending_) return true;
  --idle_;
  --running_;
  worker->done = true;
  return false;
}

bool Session::StartWorker() {
  auto worker = std::make_unique<Worker>();
  worker->session = this;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for Python's main thread
  const int error = pthread_create(&worker->thread, nullptr, &Work, worker.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return false;
  workers_.push_back(std::move(worker));
  ++running_;
  ++idle_;
  return true;
}

void Session::JoinDone() {
  std::list<std::unique_ptr<Worker>> done;
  {
    const MutexLock lock(&mutex_);
    for (auto it = workers_.begin(); it != workers_.end();) {
      const auto next = std::next(it);
      if ((*it)->done) done.splice(done.end(), workers_, it);
      it = next;
    }
  }
  for (const auto& worker : done) {
    pthread_join(worker->thread, nullptr);
    free(worker->received.mem);
  }
}

void Session::EndWorkers() {
  fuse_session_exit(session_);
  if (stream_ != nullptr) stream_->Stop();
  std::list<std::unique_ptr<Worker>> workers;
  {
    const MutexLock lock(&mutex_);
    ending_ = true;
    workers.swap(workers_);
  }
  if (stream_ == nullptr) {
    for (const auto& worker : workers) pthread_cancel(worker->thread);
  }
  for (const auto& worker : workers) {
    pthread_join(worker->thread, nullptr);
    free(worker->received.mem);
  }
  locks_.Stop();
}

void Session::Stop() {
  const uint64_t one = 1;
  const ssize_t written = write(stop_, &one, sizeof(one));
  (void)written;  // only a counter that is full already refuses
}

void Session::Run() {
  {
    const MutexLock lock(&mutex_);
    if (ran_) throw std::runtime_error("a session runs once");
    ran_ = true;
    if (!StartWorker()) RaiseErrno(EAGAIN, "pthread_create");
  }
  bool raised = false;
  for (bool stopped = false; !stopped && !raised;) {
    {
      const py::gil_scoped_release released;
      pollfd of = {stop_, POLLIN, 0};
      stopped = poll(&of, 1, kSignalInterval) > 0;
      JoinDone();
      if (stream_ == nullptr) killed_.Answer(fuse_session_fd(session_));
    }
    raised = PyErr_CheckSignals() != 0;
  }
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  {
    const py::gil_scoped_release released;
    CloseNotifications();
    Stop();
    EndWorkers();
  }
  PyErr_Restore(type, value, trace);
  if (raised) throw py::error_already_set();
}

// Those that are under way come to their end, while requests are still answered: the kernel may
// wait for a reply before it takes one.
void Session::CloseNotifications() {
  const MutexLock lock(&mutex_);
  notifies_ = false;
  while (notifying_ > 0) changed_.Wait(&mutex_);
}

template <typename Send>
int Session::Notify(const Send& send) {
  if (!notified_) return -ENOTSUP;
  {
    const MutexLock lock(&mutex_);
    if (!notifies_ || !ran_) return -ENOTCONN;
    ++notifying_;
  }
  int result = send();
  if (result == -ENOENT) result = 0;  // the kernel does not know it
  if (result == 0 && stream_ != nullptr && !stream_->WaitNotified(kTaken)) result = -ETIMEDOUT;
  const MutexLock lock(&mutex_);
  if (--notifying_ == 0) changed_.NotifyAll();
  return result;
}

int Session::Invalidate(uint64_t file, int64_t offset, int64_t length) {
  return Notify([&] { return fuse_lowlevel_notify_inval_inode(session_, file, offset, length); });
}

int Session::InvalidateEntry(uint64_t parent, const std::string& name) {
  return Notify(
      [&] { return fuse_lowlevel_notify_inval_entry(session_, parent, name.data(), name.size()); });
}

bool Session::Drain(std::chrono::milliseconds most) {
  return stream_ != nullptr && stream_->Drain(most);
}

void Session::Resume() {
  if (stream_ != nullptr) stream_->Resume();
}

}  // namespace satchel
