// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The Python half of a session: calls of shares.node.operations.Operations, and what they give
// in the words of libfuse. All of it may be called from any thread, without the GIL, but where it
// says otherwise.
#ifndef SATCHEL_SHARES_FUSE_POLICY_H_
#define SATCHEL_SHARES_FUSE_POLICY_H_

#include <fuse3/fuse_lowlevel.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "shares/fuse/window.h"

namespace satchel {

namespace py = pybind11;

constexpr int64_t kSecond = 1'000'000'000;  // in nanoseconds

// Has the GIL as long as it lives. A thread that did Attach does not make its state anew for it.
class WithPython {
 public:
  WithPython() : state_(PyGILState_Ensure()) {}
  ~WithPython() { PyGILState_Release(state_); }
  WithPython(const WithPython&) = delete;
  WithPython& operator=(const WithPython&) = delete;

 private:
  const PyGILState_STATE state_;
};

// A thread of a session is known to Python as long as this lives; it does not have the GIL.
class Attached {
 public:
  Attached() : state_(PyGILState_Ensure()), thread_(PyEval_SaveThread()) {}
  ~Attached() {
    PyEval_RestoreThread(thread_);
    PyGILState_Release(state_);
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  const PyGILState_STATE state_;
  PyThreadState* const thread_;
};

// An operations.Handle.
struct Opened {
  uint64_t number = 0;
  std::shared_ptr<Window> window;
  bool keep_cache = false;
  bool direct = false;
};

struct Item {
  std::string name;
  fuse_entry_param entry;
};

class Policy {
 public:
  // With the GIL, as the destructor.
  explicit Policy(py::object operations);

  // Runs `act(operations)` with the GIL: 0, or the errno of the OSError that it raised. Any other
  // exception is EIO, and logged as a failure of `what`.
  template <typename Act>
  int Ask(const char* what, const Act& act) const {
    const WithPython python;
    try {
      act(operations_);
      return 0;
    } catch (py::error_already_set& error) {
      return ErrnoOf(what, &error);
    } catch (const std::exception& error) {
      return Unexpected(what, error.what());
    }
  }

  // With the GIL.
  py::object LockKind(int fcntl_type) const;
  const py::object& changes() const { return changes_; }

 private:
  int ErrnoOf(const char* what, py::error_already_set* error) const;
  int Unexpected(const char* what, const char* why) const;

  const py::object operations_;
  const py::object changes_;
  const py::object lock_kind_;
  const py::object logger_;
};

// With the GIL; what is not as operations.py has it is an exception.
struct stat StatOf(const py::handle& attributes, double* valid);
fuse_entry_param EntryOf(const py::handle& entry);
Opened OpenedOf(const py::handle& handle);

}  // namespace satchel

#endif  // SATCHEL_SHARES_FUSE_POLICY_H_
