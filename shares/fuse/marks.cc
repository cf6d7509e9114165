// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Extended attributes: what programs say of a file to the node, `operations.set_mark`. They are set
// and removed, and never read: without getxattr in the table the kernel asks for one once and no
// more. Else it would ask for security.capability with each write.
#include <errno.h>

#include <string>

#include "shares/fuse/session.h"

namespace satchel {
namespace {

// value: nullptr to remove it.
void Mark(fuse_req_t request, fuse_ino_t file, const char* name, const std::string* value) {
  bool marks = false;
  const int error = Session::Of(request)->policy().Ask("set_mark", [&](const py::object& tree) {
    marks = py::hasattr(tree, "set_mark");
    if (!marks) return;
    const py::object said = value == nullptr ? py::object(py::none()) : py::bytes(*value);
    tree.attr("set_mark")(file, py::bytes(name), said);
  });
  fuse_reply_err(request, error == 0 && !marks ? ENOTSUP : error);
}

void SetAttribute(fuse_req_t request, fuse_ino_t file, const char* name, const char* value,
                  size_t size, int /*flags*/) {
  const std::string said(value, size);
  Mark(request, file, name, &said);
}

void RemoveAttribute(fuse_req_t request, fuse_ino_t file, const char* name) {
  Mark(request, file, name, nullptr);
}

}  // namespace

void AddMarkCalls(fuse_lowlevel_ops* calls) {
  calls->setxattr = &SetAttribute;
  calls->removexattr = &RemoveAttribute;
}

}  // namespace satchel
