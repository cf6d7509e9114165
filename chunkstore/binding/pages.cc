// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "chunkstore/binding/convert.h"
#include "chunkstore/core/format/record.h"

namespace satchel {
namespace {

using NamedPage = std::pair<ChunkRef, Page>;

Status ParsePages(const uint8_t* data, size_t n, unsigned level, std::vector<NamedPage>* pages) {
  uint8_t block[kBlockSize];
  while (n > 0) {
    RecordView record;
    SATCHEL_RETURN_IF_ERROR(ParseRecord(data, n, &record));
    SATCHEL_RETURN_IF_ERROR(VerifyRecord(record, block));
    pages->emplace_back();
    pages->back().first = record.ref;
    SATCHEL_RETURN_IF_ERROR(DecodePage(record.ref, block, level, &pages->back().second));
    data += record.size();
    n -= record.size();
  }
  return {};
}

// (reference of the page, its 64 references) of each record, all of them pages of `level`.
py::list ReadPages(const py::object& records, unsigned level) {
  const Bytes bytes(records);
  std::vector<NamedPage> pages;
  Run(Domain::kStore, [&] { return ParsePages(bytes.data(), bytes.size(), level, &pages); });
  py::list list;
  for (const auto& [ref, page] : pages) {
    list.append(py::make_tuple(
        py::bytes(reinterpret_cast<const char*>(ref.bytes), kChunkRefSize),
        py::bytes(reinterpret_cast<const char*>(page.refs), kPageFanout * kChunkRefSize)));
  }
  return list;
}

// The 4096 bytes of a page of these 64 references.
py::bytes MakePage(const py::object& refs, unsigned level) {
  const Bytes bytes(refs);
  if (bytes.size() != sizeof(Page::refs)) throw py::value_error("a page has 64 references");
  Page page;
  std::memcpy(page.refs, bytes.data(), sizeof(page.refs));
  uint8_t block[kBlockSize];
  EncodePage(page, level, block);
  return {reinterpret_cast<const char*>(block), sizeof(block)};
}

}  // namespace

void init_pages(py::module_& m) {
  m.attr("PAGE_FANOUT") = kPageFanout;
  m.def("root_level", &RootLevel, py::arg("blocks"));
  m.def("read_pages", &ReadPages, py::arg("records"), py::arg("level"));
  m.def("make_page", &MakePage, py::arg("refs"), py::arg("level"));
}

}  // namespace satchel
