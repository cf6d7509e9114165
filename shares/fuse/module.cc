// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of contents of shares.fuse._native._fuse; its types are in _fuse.pyi beside it.
#include <pybind11/pybind11.h>

namespace satchel {
void init_session(pybind11::module_& m);
void init_window(pybind11::module_& m);
}  // namespace satchel

PYBIND11_MODULE(_fuse, m) {
  m.doc() = "FUSE sessions, and windows of what they answer by themselves.";
  satchel::init_window(m);
  satchel::init_session(m);
}
