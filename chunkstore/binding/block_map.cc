// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/binding/block_map.h"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "chunkstore/binding/convert.h"

namespace satchel {
namespace {

using std::filesystem::path;

std::unique_ptr<PyBlockMap> Create(const path& file, uint64_t blocks) {
  std::unique_ptr<BlockMap> map;
  Run(Domain::kFile, [&] { return BlockMap::Create(file.string(), blocks, &map); });
  return std::make_unique<PyBlockMap>(PyBlockMap{std::move(map)});
}

std::unique_ptr<PyBlockMap> Open(const path& file) {
  std::unique_ptr<BlockMap> map;
  Run(Domain::kFile, [&] { return BlockMap::Open(file.string(), &map); });
  return std::make_unique<PyBlockMap>(PyBlockMap{std::move(map)});
}

void CheckRange(const BlockMap& map, uint64_t first, uint64_t count) {
  if (first > map.blocks() || count > map.blocks() - first) {
    throw py::index_error("the map has " + std::to_string(map.blocks()) + " blocks");
  }
}

py::tuple Counts(const PyBlockMap& self, uint64_t first, uint64_t count) {
  const auto map = self.Get();
  CheckRange(*map, first, count);
  BlockMap::Counts counts;
  {
    const py::gil_scoped_release released;
    counts = map->Count(first, count);
  }
  return py::make_tuple(counts.by_state[0], counts.by_state[1], counts.by_state[2],
                        counts.by_state[3]);
}

py::tuple Foresight(const PyBlockMap& self) {
  const auto map = self.Get();
  const py::gil_scoped_release released;
  const BlockMap::Foresight found = map->CountForesight();
  const py::gil_scoped_acquire held;
  return py::make_tuple(found.touched, found.foreseen, found.used);
}

std::vector<uint64_t> Touched(const PyBlockMap& self, uint32_t but) {
  const auto map = self.Get();
  const py::gil_scoped_release released;
  return map->Touched(but);
}

void Touch(const PyBlockMap& self, uint64_t first, uint64_t count) {
  const auto map = self.Get();
  CheckRange(*map, first, count);
  map->Touch(first, count);
}

void Foresee(const PyBlockMap& self, uint64_t first, uint64_t count) {
  const auto map = self.Get();
  CheckRange(*map, first, count);
  map->Foresee(first, count);
}

py::tuple Entry(const PyBlockMap& self, uint64_t block) {
  const auto map = self.Get();
  CheckRange(*map, block, 1);
  const BlockEntry entry = map->Load(block);
  return py::make_tuple(static_cast<int>(entry.state), entry.at.length, entry.at.pack,
                        entry.at.offset, entry.at.slot);
}

void MarkDirty(const PyBlockMap& self, uint64_t first, uint64_t count) {
  const auto map = self.Get();
  CheckRange(*map, first, count);
  for (uint64_t i = first; i < first + count; ++i) map->MarkDirty(i);
}

}  // namespace

std::shared_ptr<BlockMap> PyBlockMap::Get() const {
  if (map == nullptr) Check(Domain::kFile, Status::Make(Kind::kState, "the block map is closed"));
  return map;
}

void init_block_map(py::module_& m) {
  py::class_<PyBlockMap>(m, "BlockMap")
      .def_static("create", &Create, py::arg("path"), py::arg("blocks"))
      .def_static("open", &Open, py::arg("path"))
      .def("close", [](PyBlockMap& self) { self.map.reset(); })
      .def_property_readonly("blocks", [](const PyBlockMap& self) { return self.Get()->blocks(); })
      .def("counts", &Counts, py::arg("first"), py::arg("count"))
      .def("foresight", &Foresight)
      .def("foresee", &Foresee, py::arg("first"), py::arg("count"))
      .def("touch", &Touch, py::arg("first"), py::arg("count"))
      .def("touched", &Touched, py::arg("but") = 0)
      .def("entry", &Entry, py::arg("block"))
      .def("ask_for_space", [](const PyBlockMap& self) { self.Get()->AskForSpace(); })
      .def("mark_dirty", &MarkDirty, py::arg("first"), py::arg("count"));
}

}  // namespace satchel
