// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/tools/dump.h"

#include <string>
#include <vector>

#include "chunkstore/binding/convert.h"

namespace satchel {
namespace {

// (offset, size, kind, text) of each part.
py::list Dump(const std::string& path, bool index) {
  std::vector<DumpedPart> parts;
  const auto keep = [&](const DumpedPart& part) {
    parts.push_back(part);
    return Status();
  };
  Run(Domain::kStore, [&] {
    return index ? DumpIndexCopy(PosixEnv(), path, keep) : DumpFile(PosixEnv(), path, keep);
  });
  py::list list;
  for (const DumpedPart& part : parts) {
    list.append(py::make_tuple(part.offset, part.size, part.kind, part.text));
  }
  return list;
}

}  // namespace

void init_dump(py::module_& m) { m.def("dump", &Dump, py::arg("path"), py::arg("index") = false); }

}  // namespace satchel
