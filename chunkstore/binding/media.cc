// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/media.h"

#include <pybind11/stl/filesystem.h>

#include <utility>

#include "chunkstore/binding/convert.h"
#include "chunkstore/binding/store.h"

namespace satchel {
namespace {

using std::filesystem::path;

constexpr Domain kMedia = Domain::kMedia;

// The Python object. Closing it lets go of the medium once no operation uses it any more.
struct PyMedia {
  std::shared_ptr<Media> media;

  std::shared_ptr<Media> Get() const {
    if (media == nullptr) Check(kMedia, Status::Make(Kind::kState, "the medium is closed"));
    return media;
  }
};

void Init(const path& root, const std::string& uuid) {
  Run(kMedia, [&] { return Media::Init(PosixEnv(), root.string(), uuid); });
}

std::unique_ptr<PyMedia> Open(const path& root) {
  std::unique_ptr<Media> media;
  Run(kMedia, [&] { return Media::Open(PosixEnv(), root.string(), &media); });
  return std::make_unique<PyMedia>(PyMedia{std::move(media)});
}

py::list Has(const PyMedia& self, const py::object& refs) {
  const auto media = self.Get();
  const Bytes bytes(refs);
  const ChunkRef* wanted = bytes.refs();
  const size_t n = bytes.ref_count();
  const std::unique_ptr<bool[]> has(new bool[n]);
  {
    const py::gil_scoped_release released;
    media->Has(wanted, n, has.get());
  }
  return FlagsToList(has.get(), n);
}

// (records, references of damaged ones)
py::tuple Records(const PyMedia& self, const py::object& refs) {
  const auto media = self.Get();
  const Bytes bytes(refs);
  const ChunkRef* wanted = bytes.refs();
  std::string out;
  MediaNotes notes;
  Run(kMedia, [&] { return media->Records(wanted, bytes.ref_count(), &out, &notes); });
  return py::make_tuple(py::bytes(out), RefsToBytes(notes.damaged));
}

uint64_t Add(const PyMedia& self, const PyStore& from, const py::object& refs,
             py::object progress) {
  const auto media = self.Get();
  const auto store = from.Get();
  const Bytes bytes(refs);
  const ChunkRef* wanted = bytes.refs();
  uint64_t written = 0;
  MediaNotes notes;
  Progress report(std::move(progress));
  Status status;
  {
    const py::gil_scoped_release released;
    status = store->WithChunks([&](Chunks* chunks) {
      return media->Add(chunks, wanted, bytes.ref_count(), report.fn(), &written, &notes);
    });
  }
  report.Rethrow();
  Check(notes.store_failed ? Domain::kStore : kMedia, status);
  return written;
}

// (bytes freed, references of damaged ones)
py::tuple Retain(const PyMedia& self, const py::object& refs) {
  const auto media = self.Get();
  const Bytes bytes(refs);
  const ChunkRef* wanted = bytes.refs();
  uint64_t freed = 0;
  MediaNotes notes;
  Run(kMedia, [&] { return media->Retain(wanted, bytes.ref_count(), &freed, &notes); });
  return py::make_tuple(freed, RefsToBytes(notes.damaged));
}

uint64_t FreeBytes(const PyMedia& self) {
  const auto media = self.Get();
  uint64_t bytes = 0;
  Run(kMedia, [&] { return media->FreeBytes(&bytes); });
  return bytes;
}

}  // namespace

void init_media(py::module_& m) {
  py::class_<PyMedia>(m, "Media")
      .def_static("init", &Init, py::arg("root"), py::arg("uuid"))
      .def_static("open", &Open, py::arg("root"))
      .def("close", [](PyMedia& self) { self.media.reset(); })
      .def("has", &Has, py::arg("refs"))
      .def("records", &Records, py::arg("refs"))
      .def("add", &Add, py::arg("store"), py::arg("refs"), py::arg("progress"))
      .def("retain", &Retain, py::arg("refs"))
      .def("free_bytes", &FreeBytes)
      .def("chunks", [](const PyMedia& self) { return self.Get()->chunks(); });
}

}  // namespace satchel
