// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/binding/store.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <utility>

#include "chunkstore/binding/block_map.h"
#include "chunkstore/binding/convert.h"
#include "chunkstore/core/format/hash.h"

namespace satchel {
namespace {

using std::filesystem::path;

constexpr Domain kStore = Domain::kStore;

// A new bytes object and a place to write its content, before anybody else can see it.
py::bytes NewBytes(size_t n, uint8_t** data) {
  PyObject* object = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(n));
  if (object == nullptr) throw py::error_already_set();
  *data = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(object));
  return py::reinterpret_steal<py::bytes>(object);
}

// A file that the caller names, which may be a link or a device.
std::unique_ptr<File> OpenFile(const path& name, OpenMode mode) {
  std::unique_ptr<File> file;
  Run(Domain::kFile, [&] { return OpenLinked(name.string(), mode, &file); });
  return file;
}

void CreateStore(const path& folder) {
  Run(kStore, [&] { return Store::Create(PosixEnv(), folder.string()); });
}

template <typename OpenFn>  // Status(std::unique_ptr<Store>*)
std::unique_ptr<PyStore> Opened(const OpenFn& open) {
  std::unique_ptr<Store> store;
  Run(kStore, [&] { return open(&store); });
  return std::make_unique<PyStore>(PyStore{std::move(store)});
}

std::unique_ptr<PyStore> OpenStore(const path& folder, int level, uint64_t pack_limit,
                                   size_t max_pending) {
  ChunkOptions options;
  options.level = level;
  if (pack_limit != 0) options.pack_limit = std::min(pack_limit, kPackLimit);
  if (max_pending != 0) options.max_pending = max_pending;
  return Opened(
      [&](auto* store) { return Store::Open(PosixEnv(), folder.string(), options, store); });
}

std::unique_ptr<PyStore> OpenToRead(const path& folder) {
  return Opened([&](auto* store) { return Store::OpenToRead(PosixEnv(), folder.string(), store); });
}

std::unique_ptr<PyStore> OpenToRelieve(const path& folder) {
  return Opened(
      [&](auto* store) { return Store::OpenToRelieve(PosixEnv(), folder.string(), store); });
}

uint64_t RemoveDead(PyStore& self, const py::iterable& roots) {
  const auto store = self.Get();
  const std::vector<TableRoot> keep = RootsOf(roots);
  uint64_t freed = 0;
  Run(kStore, [&] { return store->RemoveDead(keep, &freed); });
  return freed;
}

void Close(PyStore& self) {
  auto store = std::exchange(self.store, nullptr);
  if (store == nullptr) return;
  Run(kStore, [&] {
    Status status = store->Sync();
    store.reset();
    return status;
  });
}

// Other objects that still have the store see it as closed.
void GiveBack(PyStore& self) {
  auto store = std::exchange(self.store, nullptr);
  if (store == nullptr) return;
  Run(kStore, [&] { return store->GiveBack(); });
}

py::bytes Put(const PyStore& self, const py::object& blocks) {
  const auto store = self.Get();
  const Bytes bytes(blocks);
  if (bytes.size() % kBlockSize != 0) {
    throw py::value_error("blocks are 4096 bytes each, this buffer has " +
                          std::to_string(bytes.size()));
  }
  const size_t n = bytes.size() / kBlockSize;
  uint8_t* refs = nullptr;
  py::bytes out = NewBytes(n * kChunkRefSize, &refs);
  Run(kStore, [&] { return store->Put(bytes.data(), n, reinterpret_cast<ChunkRef*>(refs)); });
  return out;
}

py::bytes Get(const PyStore& self, const py::object& ref) {
  const auto store = self.Get();
  const ChunkRef wanted = RefOf(Bytes(ref));
  uint8_t* block = nullptr;
  py::bytes out = NewBytes(kBlockSize, &block);
  Run(kStore, [&] { return store->Get(wanted, block); });
  return out;
}

py::list Has(const PyStore& self, const py::object& refs) {
  const auto store = self.Get();
  const Bytes bytes(refs);
  const ChunkRef* wanted = bytes.refs();
  const size_t n = bytes.ref_count();
  const std::unique_ptr<bool[]> has(new bool[n]);
  Run(kStore, [&] { return store->Has(wanted, n, has.get()); });
  return FlagsToList(has.get(), n);
}

py::bytes Records(const PyStore& self, const py::object& refs) {
  const auto store = self.Get();
  const Bytes bytes(refs);
  const ChunkRef* wanted = bytes.refs();
  std::string out;
  Run(kStore, [&] { return store->Records(wanted, bytes.ref_count(), &out); });
  return out;
}

py::bytes Admit(const PyStore& self, const py::object& records) {
  const auto store = self.Get();
  const Bytes bytes(records);
  std::vector<ChunkRef> admitted;
  Run(kStore, [&] { return store->Admit(bytes.data(), bytes.size(), &admitted); });
  return RefsToBytes(admitted);
}

void Sync(const PyStore& self) {
  const auto store = self.Get();
  Run(kStore, [&] { return store->Sync(); });
}

py::tuple ImportFile(const PyStore& self, const path& file, const py::object& base_ref,
                     uint64_t base_size, py::object progress) {
  const auto store = self.Get();
  TableRoot base;
  const bool has_base = !base_ref.is_none();
  if (has_base) base = RootOf(Bytes(base_ref), base_size);
  const std::unique_ptr<File> in = OpenFile(file, OpenMode::kRead);
  TableRoot root;
  Stored stored;
  Progress report(std::move(progress));
  RunWith(kStore, &report, [&](const ProgressFn& fn) {
    std::unique_ptr<BlockSource> source;
    SATCHEL_RETURN_IF_ERROR(OpenFileSource(in.get(), &source));
    return store->Import(source.get(), has_base ? &base : nullptr, fn, &root, &stored);
  });
  py::dict levels;
  for (const auto& [level, added] : stored) {
    levels[py::int_(level)] = py::make_tuple(added.chunks, added.bytes);
  }
  return py::make_tuple(RootToTuple(root), levels);
}

py::tuple ImportBytes(const PyStore& self, const py::object& data) {
  const auto store = self.Get();
  const Bytes bytes(data);
  TableRoot root;
  Run(kStore, [&] {
    const auto source = MemorySource(bytes.data(), bytes.size());
    return store->Import(source.get(), nullptr, nullptr, &root);
  });
  return RootToTuple(root);
}

void ExportFile(const PyStore& self, const py::object& ref, uint64_t size, const path& file,
                py::object progress) {
  const auto store = self.Get();
  const TableRoot root = RootOf(Bytes(ref), size);
  Progress report(std::move(progress));
  RunWith(kStore, &report,
          [&](const ProgressFn& fn) { return store->ExportFile(root, file.string(), fn); });
}

void CheckWhole(const PyStore& self, const py::object& ref, uint64_t size, py::object progress) {
  const auto store = self.Get();
  const TableRoot root = RootOf(Bytes(ref), size);
  Progress report(std::move(progress));
  RunWith(kStore, &report, [&](const ProgressFn& fn) { return store->Check(root, fn); });
}

py::bytes Read(const PyStore& self, const py::object& ref, uint64_t size, uint64_t offset,
               uint64_t length) {
  const auto store = self.Get();
  const TableRoot root = RootOf(Bytes(ref), size);
  if (offset > size || length > size - offset) {  // before anything of that length is allocated
    throw py::value_error("the volume has " + std::to_string(size) + " bytes");
  }
  uint8_t* data = nullptr;
  py::bytes out = NewBytes(length, &data);
  Run(kStore, [&] { return store->Read(root, offset, length, data); });
  return out;
}

py::bytes Resolve(const PyStore& self, const py::object& ref, uint64_t size, const PyBlockMap& map,
                  uint64_t first, uint64_t count) {
  const auto store = self.Get();
  const auto mapped = map.Get();
  const TableRoot root = RootOf(Bytes(ref), size);
  std::vector<ChunkRef> missing;
  store->in_use()->Attach(mapped, root);
  Run(kStore, [&] { return store->Resolve(root, mapped.get(), first, count, &missing); });
  return RefsToBytes(missing);
}

py::bytes MissingIn(const PyStore& self, const py::object& ref, uint64_t size, uint64_t first,
                    uint64_t count) {
  const auto store = self.Get();
  const TableRoot root = RootOf(Bytes(ref), size);
  std::vector<ChunkRef> missing;
  Run(kStore, [&] { return store->MissingIn(root, first, count, &missing); });
  return RefsToBytes(missing);
}

void Place(const PyStore& self, const PyBlockMap& map, const std::vector<uint32_t>& numbers,
           const py::object& blocks) {
  const auto store = self.Get();
  const auto mapped = map.Get();
  const Bytes bytes(blocks);
  if (bytes.size() != numbers.size() * kBlockSize) {
    throw py::value_error("there must be 4096 bytes for each number");
  }
  Run(kStore,
      [&] { return store->Place(mapped.get(), numbers.data(), numbers.size(), bytes.data()); });
}

py::tuple Commit(const PyStore& self, const py::object& ref, uint64_t size, const PyBlockMap& map,
                 const path& overlay) {
  const auto store = self.Get();
  const auto mapped = map.Get();
  const TableRoot root = RootOf(Bytes(ref), size);
  const std::unique_ptr<File> file = OpenFile(overlay, OpenMode::kReadWrite);
  TableRoot new_root;
  store->in_use()->Attach(mapped, root);
  Run(kStore, [&] { return store->Commit(root, mapped.get(), file.get(), &new_root); });
  return RootToTuple(new_root);
}

py::bytes Reachable(const PyStore& self, const py::iterable& roots) {
  const auto store = self.Get();
  const std::vector<TableRoot> from = RootsOf(roots);
  std::vector<ChunkRef> refs;
  Run(kStore, [&] { return store->Reachable(from, &refs); });
  return RefsToBytes(refs);
}

py::bytes Missing(const PyStore& self, const py::iterable& roots) {
  const auto store = self.Get();
  const std::vector<TableRoot> from = RootsOf(roots);
  std::vector<ChunkRef> refs;
  Run(kStore, [&] { return store->Missing(from, &refs); });
  return RefsToBytes(refs);
}

py::dict Verify(const PyStore& self, py::object progress) {
  const auto store = self.Get();
  VerifyReport report;
  Progress fn(std::move(progress));
  RunWith(kStore, &fn, [&](const ProgressFn& f) { return store->Verify(f, &report); });
  py::list bad;
  for (const BadRecord& record : report.bad) {
    bad.append(py::make_tuple(record.pack, record.offset, record.why));
  }
  py::dict out;
  out["records"] = report.records;
  out["bytes"] = report.bytes;
  out["unclaimed"] = report.unclaimed;
  out["bad"] = bad;
  out["unindexed"] = RefsToBytes(report.unindexed);
  out["dangling"] = RefsToBytes(report.dangling);
  return out;
}

void RebuildIndex(const PyStore& self, py::object progress) {
  const auto store = self.Get();
  Progress fn(std::move(progress));
  RunWith(kStore, &fn, [&](const ProgressFn& f) { return store->RebuildIndex(f); });
}

// A store that is closed needs to be told nothing: what makes roots finds out by itself.
uint64_t BeginMaking(const PyStore& self) {
  return self.store == nullptr ? 0 : self.store->in_use()->Begin();
}

void EndMaking(const PyStore& self, uint64_t maker) {
  if (self.store != nullptr) self.store->in_use()->End(maker);
}

void Keep(const PyStore& self, const py::iterable& roots) {
  for (const TableRoot& root : RootsOf(roots)) self.Get()->in_use()->Made(root);
}

py::dict Prune(const PyStore& self, const py::iterable& keep, const py::iterable& maps,
               bool partial, bool dry_run, py::object progress) {
  const auto store = self.Get();
  const std::vector<TableRoot> roots = RootsOf(keep);
  std::vector<std::shared_ptr<BlockMap>> held;
  std::vector<const BlockMap*> pinned;
  for (const py::handle& item : maps) {
    held.push_back(py::cast<const PyBlockMap&>(item).Get());
    pinned.push_back(held.back().get());
  }
  PruneReport report;
  Progress fn(std::move(progress));
  RunWith(kStore, &fn, [&](const ProgressFn& f) {
    return store->Prune(roots, pinned, partial, dry_run, f, &report);
  });
  py::dict out;
  out["kept"] = report.kept;
  out["removed"] = report.removed;
  out["bytes_before"] = report.bytes_before;
  out["bytes_after"] = report.bytes_after;
  return out;
}

py::tuple Evict(const PyStore& self, const py::object& refs) {
  const auto store = self.Get();
  const Bytes bytes(refs);
  const std::vector<ChunkRef> chosen(bytes.refs(), bytes.refs() + bytes.ref_count());
  EvictReport report;
  Run(kStore, [&] { return store->Evict(chosen, &report); });
  return py::make_tuple(report.evicted, RefsToBytes(report.pinned), report.pack_bytes);
}

py::bytes Names(const PyStore& self) {
  const auto store = self.Get();
  std::vector<ChunkRef> refs;
  Run(kStore, [&] { return store->Names(&refs); });
  return RefsToBytes(refs);
}

py::bytes NamesIn(const PyStore& self, const PyBlockMap& map, const std::vector<uint64_t>& blocks) {
  const auto store = self.Get();
  const auto held = map.Get();
  for (const uint64_t block : blocks) {
    if (block >= held->blocks()) throw py::index_error("no such block");
  }
  std::vector<ChunkRef> refs;
  Run(kStore, [&] { return store->NamesIn(*held, blocks, &refs); });
  return RefsToBytes(refs);
}

void Rewrite(const PyStore& self, const std::vector<uint32_t>& packs) {
  const auto store = self.Get();
  Run(kStore, [&] { return store->Rewrite(packs); });
}

py::dict Settle(const PyStore& self, const py::iterable& maps, bool background,
                py::object progress) {
  const auto store = self.Get();
  for (const py::handle& item : maps) store->Regard(py::cast<const PyBlockMap&>(item).Get().get());
  SettleReport report;
  Progress fn(std::move(progress));
  RunWith(kStore, &fn,
          [&](const ProgressFn& f) { return store->Settle({background}, f, &report); });
  py::dict out;
  out["chunks"] = report.chunks;
  out["damaged"] = report.damaged;
  out["pinned"] = report.pinned;
  out["bytes_before"] = report.bytes_before;
  out["bytes_after"] = report.bytes_after;
  return out;
}

py::dict Stats(const PyStore& self) {
  const auto store = self.Get();
  StoreStats stats;
  Run(kStore, [&] { return store->Stats(&stats); });
  py::dict out;
  out["chunks"] = stats.chunks;
  out["variants"] = stats.variants;
  out["packs"] = stats.packs;
  out["pack_bytes"] = stats.pack_bytes;
  out["live_bytes"] = stats.live_bytes;
  out["settled"] = stats.settled;
  out["damaged"] = stats.damaged;
  return out;
}

py::bytes TakeNamesakes(const PyStore& self) {
  const auto store = self.Get();
  std::vector<ChunkRef> refs;
  {
    const py::gil_scoped_release released;
    refs = store->TakeNamesakes();
  }
  return RefsToBytes(refs);
}

py::bytes NamesOf(const py::object& blocks) {
  const Bytes bytes(blocks);
  if (bytes.size() % kBlockSize != 0) throw py::value_error("blocks are 4096 bytes each");
  std::vector<ChunkRef> refs(bytes.size() / kBlockSize);
  NameBlocks(bytes.data(), refs.size(), refs.data());
  return RefsToBytes(refs);
}

uint64_t Checksum(const py::object& data) {
  const Bytes bytes(data);
  return Checksum64(bytes.data(), bytes.size());
}

}  // namespace

std::shared_ptr<Store> PyStore::Get() const {
  if (store == nullptr) Check(kStore, Status::Make(Kind::kState, "the store is closed"));
  return store;
}

void init_store(py::module_& m) {
  m.def("name_blocks", &NamesOf, py::arg("blocks"));
  m.def("checksum64", &Checksum, py::arg("data"));
  py::class_<PyStore>(m, "Store")
      .def_static("create", &CreateStore, py::arg("path"))
      .def_static("open", &OpenStore, py::arg("path"), py::arg("level"), py::arg("pack_limit"),
                  py::arg("max_pending"))
      .def_static("open_to_read", &OpenToRead, py::arg("path"))
      .def_static("open_to_relieve", &OpenToRelieve, py::arg("path"))
      .def("remove_dead", &RemoveDead, py::arg("keep"))
      .def("close", &Close)
      .def("give_back", &GiveBack)
      .def("put", &Put, py::arg("blocks"))
      .def("get", &Get, py::arg("ref"))
      .def("has", &Has, py::arg("refs"))
      .def("records", &Records, py::arg("refs"))
      .def("admit", &Admit, py::arg("records"))
      .def("sync", &Sync)
      .def("import_file", &ImportFile, py::arg("path"), py::arg("base_ref"), py::arg("base_size"),
           py::arg("progress"))
      .def("import_bytes", &ImportBytes, py::arg("data"))
      .def("export_file", &ExportFile, py::arg("ref"), py::arg("size"), py::arg("path"),
           py::arg("progress"))
      .def("check", &CheckWhole, py::arg("ref"), py::arg("size"), py::arg("progress"))
      .def("read", &Read, py::arg("ref"), py::arg("size"), py::arg("offset"), py::arg("length"))
      .def("resolve", &Resolve, py::arg("ref"), py::arg("size"), py::arg("map"), py::arg("first"),
           py::arg("count"))
      .def("missing_in", &MissingIn, py::arg("ref"), py::arg("size"), py::arg("first"),
           py::arg("count"))
      .def("place", &Place, py::arg("map"), py::arg("numbers"), py::arg("blocks"))
      .def("commit", &Commit, py::arg("ref"), py::arg("size"), py::arg("map"), py::arg("overlay"))
      .def("reachable", &Reachable, py::arg("roots"))
      .def("missing", &Missing, py::arg("roots"))
      .def("verify", &Verify, py::arg("progress"))
      .def("rebuild_index", &RebuildIndex, py::arg("progress"))
      .def("prune", &Prune, py::arg("keep"), py::arg("maps"), py::arg("partial"),
           py::arg("dry_run"), py::arg("progress"))
      .def("evict", &Evict, py::arg("refs"))
      .def("names", &Names)
      .def("names_in", &NamesIn, py::arg("map"), py::arg("blocks"))
      .def("begin_making", &BeginMaking)
      .def("end_making", &EndMaking, py::arg("maker"))
      .def("keep", &Keep, py::arg("roots"))
      .def("rewrite", &Rewrite, py::arg("packs"))
      .def("settle", &Settle, py::arg("maps"), py::arg("background"), py::arg("progress"))
      .def("stats", &Stats)
      .def("take_namesakes", &TakeNamesakes);
}

}  // namespace satchel
