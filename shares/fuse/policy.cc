// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "shares/fuse/policy.h"

#include <errno.h>
#include <fcntl.h>

#include <utility>

namespace satchel {
namespace {

py::object Named(const char* module, const char* name) {
  return py::module_::import(module).attr(name);
}

template <typename T>
T Get(const py::handle& of, const char* name) {
  return py::cast<T>(of.attr(name));
}

// Nanoseconds of the year 2300 need more than 64 bits.
timespec TimeOf(const py::handle& attributes, const char* name) {
  const py::object nanoseconds = attributes.attr(name);
  const py::object seconds = nanoseconds.attr("__floordiv__")(kSecond);
  timespec out = {};
  int overflow = 0;
  out.tv_sec = PyLong_AsLongLongAndOverflow(seconds.ptr(), &overflow);
  if (overflow != 0) {
    out.tv_sec = overflow > 0 ? INT64_MAX : INT64_MIN;
  } else {
    out.tv_nsec = py::cast<int64_t>(nanoseconds.attr("__mod__")(kSecond));
  }
  return out;
}

}  // namespace

Policy::Policy(py::object operations)
    : operations_(std::move(operations)),
      changes_(Named("shares.node.operations", "Changes")),
      lock_kind_(Named("shares.node.operations", "LockKind")),
      logger_(py::module_::import("logging").attr("getLogger")("shares.fuse")) {}

int Policy::ErrnoOf(const char* what, py::error_already_set* error) const {
  if (error->matches(PyExc_OSError)) {
    const py::object number = py::getattr(error->value(), "errno", py::none());
    const long value = PyLong_Check(number.ptr()) ? PyLong_AsLong(number.ptr()) : 0;
    PyErr_Clear();
    if (value > 0 && value < 1000) return static_cast<int>(value);
  }
  return Unexpected(what, error->what());
}

int Policy::Unexpected(const char* what, const char* why) const {
  try {
    logger_.attr("error")("%s failed: %s", what, why);
  } catch (py::error_already_set&) {
    // What a logger raises has nowhere to go.
  }
  return EIO;
}

py::object Policy::LockKind(int fcntl_type) const {
  const char* const name = fcntl_type == F_RDLCK   ? "READ"
                           : fcntl_type == F_WRLCK ? "WRITE"
                                                   : "UNLOCK";
  return lock_kind_.attr(name);
}

struct stat StatOf(const py::handle& attributes, double* valid) {
  struct stat out = {};
  out.st_ino = Get<uint64_t>(attributes, "file");
  out.st_mode = Get<mode_t>(attributes, "mode");
  out.st_nlink = Get<nlink_t>(attributes, "links");
  out.st_uid = Get<uid_t>(attributes, "uid");
  out.st_gid = Get<gid_t>(attributes, "gid");
  out.st_size = Get<off_t>(attributes, "size");
  out.st_blocks = Get<blkcnt_t>(attributes, "blocks");
  out.st_blksize = static_cast<blksize_t>(Window::kBlockSize);
  out.st_atim = TimeOf(attributes, "accessed");
  out.st_mtim = TimeOf(attributes, "modified");
  out.st_ctim = TimeOf(attributes, "changed");
  *valid = Get<double>(attributes, "valid");
  return out;
}

fuse_entry_param EntryOf(const py::handle& entry) {
  fuse_entry_param out = {};
  out.attr = StatOf(entry.attr("attributes"), &out.attr_timeout);
  out.ino = out.attr.st_ino;
  out.entry_timeout = Get<double>(entry, "valid");
  return out;
}

Opened OpenedOf(const py::handle& handle) {
  Opened out;
  out.number = Get<uint64_t>(handle, "number");
  const py::object window = handle.attr("window");
  if (!window.is_none()) out.window = py::cast<std::shared_ptr<Window>>(window);
  out.keep_cache = Get<bool>(handle, "keep_cache");
  out.direct = Get<bool>(handle, "direct");
  return out;
}

}  // namespace satchel
