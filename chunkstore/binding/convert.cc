// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/binding/convert.h"

#include <cstring>

#include "chunkstore/core/format/chunk_status.h"

namespace satchel {
namespace {

const char* NameOf(Domain domain) {
  switch (domain) {
    case Domain::kStore:
      return "store";
    case Domain::kFile:
      return "file";
    case Domain::kMedia:
      return "media";
  }
  return "";
}

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kOk:
      return "ok";
    case Kind::kMissing:
      return "missing";
    case Kind::kInvalid:
      return "invalid";
    case Kind::kNotFound:
      return "not-found";
    case Kind::kExists:
      return "exists";
    case Kind::kLocked:
      return "locked";
    case Kind::kDamaged:
      return "damaged";
    case Kind::kFull:
      return "full";
    case Kind::kDenied:
      return "denied";
    case Kind::kGone:
      return "gone";
    case Kind::kUnsupported:
      return "unsupported";
    case Kind::kUsage:
      return "usage";
    case Kind::kState:
      return "state";
    case Kind::kIo:
      return "io";
    case Kind::kCancelled:
      return "cancelled";
  }
  return "";
}

py::bytes RefToBytes(const ChunkRef& ref) {
  return {reinterpret_cast<const char*>(ref.bytes), kChunkRefSize};
}

}  // namespace

void Check(Domain domain, const Status& status) {
  if (status.ok()) return;
  py::object ref = py::none();
  if (!status.subject().empty()) ref = RefToBytes(ChunkOf(status));
  // Paths are bytes to the system; what is not UTF-8 in them is shown escaped.
  const auto text = [](const std::string& s) {
    return py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "backslashreplace"));
  };
  const py::object error = py::module_::import("chunkstore.errors")
                               .attr("from_core")(NameOf(domain), NameOf(status.kind()),
                                                  text(status.what()), text(status.why()), ref);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

Bytes::Bytes(const py::object& object) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
}

const ChunkRef* Bytes::refs() const {
  if (size() % kChunkRefSize != 0) {
    throw py::value_error("references are 52 bytes each, this buffer has " +
                          std::to_string(size()));
  }
  return reinterpret_cast<const ChunkRef*>(data());
}

ChunkRef RefOf(const Bytes& bytes) {
  if (bytes.size() != kChunkRefSize) {
    throw py::value_error("a reference has 52 bytes, not " + std::to_string(bytes.size()));
  }
  ChunkRef ref;
  std::memcpy(ref.bytes, bytes.data(), kChunkRefSize);
  return ref;
}

TableRoot RootOf(const Bytes& ref, uint64_t size) { return TableRoot{RefOf(ref), size}; }

py::bytes RefsToBytes(const std::vector<ChunkRef>& refs) {
  return {reinterpret_cast<const char*>(refs.data()), refs.size() * kChunkRefSize};
}

py::list FlagsToList(const bool* flags, size_t n) {
  py::list out(n);
  for (size_t i = 0; i < n; ++i) out[i] = py::bool_(flags[i]);
  return out;
}

py::tuple RootToTuple(const TableRoot& root) {
  return py::make_tuple(RefToBytes(root.ref), root.size);
}

std::vector<TableRoot> RootsOf(const py::iterable& roots) {
  std::vector<TableRoot> out;
  for (const py::handle& item : roots) {
    const auto pair = py::cast<py::tuple>(item);
    out.push_back(RootOf(Bytes(pair[0]), py::cast<uint64_t>(pair[1])));
  }
  return out;
}

bool Progress::operator()(uint64_t done, uint64_t total) {
  const py::gil_scoped_acquire gil;
  try {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    callable_(done, total);
    return true;
  } catch (...) {
    raised_ = std::current_exception();
    return false;
  }
}

void Progress::Rethrow() {
  if (raised_ != nullptr) std::rethrow_exception(raised_);
}

}  // namespace satchel
