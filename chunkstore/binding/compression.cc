// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "chunkstore/binding/convert.h"
#include "chunkstore/core/format/zstd_contexts.h"

namespace satchel {
namespace {

// A frame that is shorter than the content, or None.
py::object Compress(const py::object& content, int level) {
  const Bytes bytes(content);
  if (bytes.size() < 2) return py::none();
  std::string frame(bytes.size() - 1, '\0');
  size_t length = 0;
  {
    const py::gil_scoped_release released;
    length = ZSTD_compressCCtx(ZstdContexts::OfThread().compress, frame.data(), frame.size(),
                               bytes.data(), bytes.size(), level);
  }
  if (ZSTD_isError(length)) return py::none();
  return py::bytes(frame.data(), length);
}

// The `size` bytes that a frame is of; ValueError for what is no frame of as many.
py::bytes Decompress(const py::object& frame, size_t size) {
  const Bytes bytes(frame);
  std::string content(size, '\0');
  size_t length = 0;
  {
    const py::gil_scoped_release released;
    length = ZSTD_decompressDCtx(ZstdContexts::OfThread().decompress, content.data(), size,
                                 bytes.data(), bytes.size());
  }
  if (ZSTD_isError(length)) throw py::value_error(ZSTD_getErrorName(length));
  if (length != size) throw py::value_error("the content has another size");
  return content;
}

}  // namespace

void init_compression(py::module_& m) {
  m.def("compress", &Compress, py::arg("content"), py::arg("level"));
  m.def("decompress", &Decompress, py::arg("frame"), py::arg("size"));
}

}  // namespace satchel
