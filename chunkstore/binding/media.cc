// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/media/media.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "chunkstore/binding/convert.h"
#include "chunkstore/binding/store.h"
#include "chunkstore/core/media/sealed_env.h"

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

// A medium's environment. It seals what it writes if there is a key.
class MediumEnv {
 public:
  // `keys` is empty, or has kSealKeySize bytes of each key, the newest first.
  explicit MediumEnv(const std::string& keys) {
    if (keys.empty()) return;
    if (keys.size() % kSealKeySize != 0) {
      Check(kMedia, Status::Make(Kind::kUsage, "a medium's key has 32 bytes"));
    }
    std::vector<SealKey> list(keys.size() / kSealKeySize);
    for (size_t i = 0; i < list.size(); ++i) {
      std::copy_n(keys.begin() + static_cast<ptrdiff_t>(i * kSealKeySize), kSealKeySize,
                  list[i].begin());
    }
    sealed_ = std::make_unique<SealedEnv>(PosixEnv(), std::move(list));
  }

  Env* env() const { return sealed_ == nullptr ? PosixEnv() : sealed_.get(); }

 private:
  std::unique_ptr<Env> sealed_;
};

void Init(const path& root, const std::string& uuid) {
  Run(kMedia, [&] { return Media::Init(PosixEnv(), root.string(), uuid); });
}

void Redescribe(const path& root, const std::string& uuid, const py::bytes& keys) {
  const MediumEnv way{std::string(keys)};
  Run(kMedia, [&] { return Media::Redescribe(way.env(), root.string(), uuid); });
}

std::unique_ptr<PyMedia> Open(const path& root, const py::bytes& keys) {
  struct OpenMedium {
    MediumEnv way;
    std::unique_ptr<Media> media;
  };
  const auto opened =
      std::make_shared<OpenMedium>(OpenMedium{MediumEnv{std::string(keys)}, nullptr});
  Run(kMedia, [&] { return Media::Open(opened->way.env(), root.string(), &opened->media); });
  return std::make_unique<PyMedia>(PyMedia{{opened, opened->media.get()}});
}

py::bytes ReadSmall(const PyMedia& self, const std::string& name) {
  const auto media = self.Get();
  std::string data;
  Run(kMedia, [&] { return media->ReadSmall(name, &data); });
  return data;
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

py::tuple Pieces(const PyMedia& self, const py::iterable& roots) {
  const auto media = self.Get();
  const std::vector<TableRoot> of = RootsOf(roots);
  uint64_t chunks = 0;
  uint64_t pieces = 0;
  Run(kMedia, [&] { return media->Pieces(of, &chunks, &pieces); });
  return py::make_tuple(chunks, pieces);
}

uint64_t Add(const PyMedia& self, const PyStore& from, const py::object& refs, size_t again,
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
      return media->Add(chunks, wanted, bytes.ref_count(), again, report.fn(), &written, &notes);
    });
  }
  report.Rethrow();
  Check(notes.store_failed ? Domain::kStore : kMedia, status);
  return written;
}

// Records that a Python function returns. Which it has is not known.
class CalledRecords final : public RecordSource {
 public:
  explicit CalledRecords(py::object records) : records_(std::move(records)) {}

  Status MaybeHere(const ChunkRef*, size_t n, bool* maybe) override {
    std::fill_n(maybe, n, true);
    return {};
  }

  // To be called without the GIL, which guards `raised_`.
  Status Records(const ChunkRef* refs, size_t n, std::string* out, const Sending&) override {
    const py::gil_scoped_acquire gil;
    try {
      const auto* wanted = reinterpret_cast<const char*>(refs);
      *out += py::cast<std::string>(records_(py::bytes(wanted, n * sizeof(ChunkRef))));
      return {};
    } catch (...) {
      raised_ = std::current_exception();
      return Status::Make(Kind::kIo, "whoever has the records does not give them");
    }
  }

  void Rethrow() {
    if (raised_ != nullptr) std::rethrow_exception(raised_);
  }

 private:
  py::object records_;
  std::exception_ptr raised_;
};

uint64_t AddAsked(const PyMedia& self, py::object records, const py::object& refs, size_t again,
                  py::object progress) {
  const auto media = self.Get();
  const Bytes bytes(refs);
  const ChunkRef* wanted = bytes.refs();
  uint64_t written = 0;
  MediaNotes notes;
  Progress report(std::move(progress));
  CalledRecords from(std::move(records));
  Status status;
  {
    const py::gil_scoped_release released;
    status = media->Add(&from, wanted, bytes.ref_count(), again, report.fn(), &written, &notes);
  }
  report.Rethrow();
  from.Rethrow();
  Check(notes.store_failed ? Domain::kStore : kMedia, status);
  return written;
}

// (number, nanoseconds, [(path, bytes, SHA-256)], packs, bytes of packs, what is lacking), newest
// first
py::list Generations(const PyMedia& self) {
  py::list out;
  for (const MediaGeneration& generation : self.Get()->generations()) {
    const MediaCommit& commit = generation.commit;
    py::list files;
    for (const MediaFile& file : commit.files) {
      const auto* digest = reinterpret_cast<const char*>(file.digest.data());
      files.append(py::make_tuple(file.path, file.size, py::bytes(digest, file.digest.size())));
    }
    uint64_t bytes = 0;
    for (const MediaPack& pack : commit.packs) bytes += pack.size;
    out.append(py::make_tuple(commit.generation, commit.created, files, commit.packs.size(), bytes,
                              generation.why));
  }
  return out;
}

void PutFile(const PyMedia& self, const std::string& name, const py::object& data) {
  const auto media = self.Get();
  const Bytes bytes(data);
  const std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Run(kMedia, [&] { return media->PutFile(name, content); });
}

// (generation, bytes freed, references of damaged ones)
py::tuple Commit(const PyMedia& self, const std::vector<std::string>& paths,
                 const py::iterable& roots, const py::iterable& carried,
                 const py::iterable& partial, const py::object& chunks, bool keep_packs,
                 uint64_t created) {
  const auto media = self.Get();
  MediaDraft draft;
  draft.paths = paths;
  draft.roots = RootsOf(roots);
  draft.carried = RootsOf(carried);
  draft.partial = RootsOf(partial);
  const Bytes kept(chunks);
  draft.chunks.assign(kept.refs(), kept.refs() + kept.ref_count());
  draft.keep_packs = keep_packs;
  uint64_t generation = 0;
  uint64_t freed = 0;
  MediaNotes notes;
  Run(kMedia, [&] { return media->Commit(draft, created, &generation, &freed, &notes); });
  return py::make_tuple(generation, freed, RefsToBytes(notes.damaged));
}

py::bytes Missing(const PyMedia& self, const py::iterable& roots) {
  const auto media = self.Get();
  const std::vector<TableRoot> from = RootsOf(roots);
  std::vector<ChunkRef> refs;
  Run(kMedia, [&] { return media->Missing(from, &refs); });
  return RefsToBytes(refs);
}

// (records, bytes, [(pack, offset, why)], references of damaged ones)
template <typename Act>
py::tuple ReadAll(const PyMedia& self, py::object progress, const Act& act) {
  const auto media = self.Get();
  MediaReport report;
  Progress fn(std::move(progress));
  RunWith(kMedia, &fn, [&](const ProgressFn& f) { return act(media.get(), f, &report); });
  py::list bad;
  for (const MediaBadRecord& record : report.bad) {
    bad.append(py::make_tuple(record.pack, record.offset, record.why));
  }
  return py::make_tuple(report.records, report.bytes, bad, RefsToBytes(report.damaged));
}

py::tuple Verify(const PyMedia& self, py::object progress) {
  return ReadAll(self, std::move(progress),
                 [](Media* media, const ProgressFn& f, MediaReport* report) {
                   return media->Verify(f, report);
                 });
}

py::tuple RebuildIndexes(const PyMedia& self, py::object progress) {
  return ReadAll(self, std::move(progress),
                 [](Media* media, const ProgressFn& f, MediaReport* report) {
                   return media->RebuildIndexes(f, report);
                 });
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
      .def_static("redescribe", &Redescribe, py::arg("root"), py::arg("uuid"), py::arg("key"))
      .def_static("open", &Open, py::arg("root"), py::arg("key"))
      .def("close", [](PyMedia& self) { self.media.reset(); })
      .def("has", &Has, py::arg("refs"))
      .def("records", &Records, py::arg("refs"))
      .def("add", &Add, py::arg("store"), py::arg("refs"), py::arg("again"), py::arg("progress"))
      .def("add_asked", &AddAsked, py::arg("records"), py::arg("refs"), py::arg("again"),
           py::arg("progress"))
      .def("pieces", &Pieces, py::arg("roots"))
      .def("read_file", &ReadSmall, py::arg("path"))
      .def("put_file", &PutFile, py::arg("path"), py::arg("data"))
      .def("commit", &Commit, py::arg("paths"), py::arg("roots"), py::arg("carried"),
           py::arg("partial"), py::arg("chunks"), py::arg("keep_packs"), py::arg("created"))
      .def("generations", &Generations)
      .def("missing", &Missing, py::arg("roots"))
      .def("verify", &Verify, py::arg("progress"))
      .def("rebuild_indexes", &RebuildIndexes, py::arg("progress"))
      .def("free_bytes", &FreeBytes)
      .def("chunks", [](const PyMedia& self) { return self.Get()->chunks(); });
}

}  // namespace satchel
