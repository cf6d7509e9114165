// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What every file of the binding needs: errors, buffers, progress. All of it is called with the
// GIL held, but for the call operator of Progress.
#ifndef SATCHEL_CHUNKSTORE_BINDING_CONVERT_H_
#define SATCHEL_CHUNKSTORE_BINDING_CONVERT_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "chunkstore/core/format/table.h"
#include "chunkstore/core/os/status.h"
#include "chunkstore/core/volume/volume.h"

namespace satchel {

namespace py = pybind11;

// What an error is about decides, with its kind, which Python class it becomes.
enum class Domain : uint8_t { kStore, kFile, kMedia };

// Raises the Python exception for `status`: the one translator. Returns if it is ok.
void Check(Domain domain, const Status& status);

// The bytes of any object with a contiguous buffer. The object must not change meanwhile.
class Bytes {
 public:
  explicit Bytes(const py::object& object);
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  const uint8_t* data() const { return static_cast<const uint8_t*>(view_.buf); }
  size_t size() const { return static_cast<size_t>(view_.len); }

  // The buffer as references; ValueError if its size is no multiple of one.
  const ChunkRef* refs() const;
  size_t ref_count() const { return size() / kChunkRefSize; }

 private:
  Py_buffer view_;
};

ChunkRef RefOf(const Bytes& bytes);
TableRoot RootOf(const Bytes& ref, uint64_t size);
py::bytes RefsToBytes(const std::vector<ChunkRef>& refs);
py::list FlagsToList(const bool* flags, size_t n);
py::tuple RootToTuple(const TableRoot& root);

// (ref, size) pairs.
std::vector<TableRoot> RootsOf(const py::iterable& roots);

// A Python callable (done, total) as the core wants it. Signals are looked at each time, so that
// Ctrl-C stops a long operation. What it raises is raised again by Rethrow.
class Progress {
 public:
  explicit Progress(py::object callable) : callable_(std::move(callable)) {}

  // To be called without the GIL.
  bool operator()(uint64_t done, uint64_t total);
  void Rethrow();

  ProgressFn fn() {
    return [this](uint64_t done, uint64_t total) { return (*this)(done, total); };
  }

 private:
  py::object callable_;
  std::exception_ptr raised_;
};

// Runs `act` without the GIL and raises its error.
template <typename Act>
void Run(Domain domain, const Act& act) {
  Status status;
  {
    const py::gil_scoped_release released;
    status = act();
  }
  Check(domain, status);
}

template <typename Act>
void RunWith(Domain domain, Progress* progress, const Act& act) {
  Status status;
  {
    const py::gil_scoped_release released;
    status = act(progress->fn());
  }
  progress->Rethrow();
  Check(domain, status);
}

// One per topic, called by the module.
void init_block_map(py::module_& m);
void init_compression(py::module_& m);
void init_media(py::module_& m);
void init_pages(py::module_& m);
void init_dump(py::module_& m);
void init_store(py::module_& m);

}  // namespace satchel

#endif  // SATCHEL_CHUNKSTORE_BINDING_CONVERT_H_
