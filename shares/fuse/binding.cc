// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "shares/fuse/session.h"

namespace satchel {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void RaiseErrno(int error) {
  errno = error;
  PyErr_SetFromErrno(PyExc_OSError);
  throw py::error_already_set();
}

int Duplicate(int fd) {
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own < 0) RaiseErrno(errno);
  return own;
}

milliseconds Milliseconds(double seconds) {
  return milliseconds(static_cast<int64_t>(std::min(std::max(seconds, 0.0), 1e6) * 1000));
}

// What a notification gave, from a call that was made without the GIL.
template <typename Send>
void Notify(const Send& send) {
  int result;
  {
    const py::gil_scoped_release released;
    result = send();
  }
  if (result != 0) RaiseErrno(-result);
}

std::shared_ptr<Window> MakeWindow(int fd, uint64_t size) {
  return std::make_shared<Window>(Duplicate(fd), size);
}

void Grant(Window* window, uint64_t first, uint64_t count, bool read, uint64_t writes) {
  if (!window->Grant(first, count, read, writes)) {
    throw py::value_error("a window has no blocks so far behind");
  }
}

void Until(Window* window, double seconds) {
  const double nanoseconds = seconds * 1e9;
  window->Until(!(nanoseconds < 1e19) ? Window::kNoEnd
                                      : static_cast<uint64_t>(std::max(nanoseconds, 0.0)));
}

void Allow(Window* window, double writes, double fresh) {
  const auto count = [](double number) {
    const double most = static_cast<double>(Window::kMany);
    return static_cast<int64_t>(std::min(std::max(number, 0.0), most));
  };
  window->Allow(count(writes), count(fresh));
}

}  // namespace

void init_window(py::module_& m) {
  const auto free = py::call_guard<py::gil_scoped_release>();
  py::class_<Window, std::shared_ptr<Window>>(m, "Window")
      .def(py::init(&MakeWindow), py::arg("fd"), py::arg("size"))
      .def("grant", &Grant, py::arg("first"), py::arg("count") = 1, py::kw_only(),
           py::arg("read") = true, py::arg("writes") = 0)
      .def("grant_whole", &Window::GrantWhole, py::kw_only(), py::arg("write"))
      .def("revoke", &Window::Revoke, py::arg("first"), py::arg("count") = 1, py::kw_only(),
           py::arg("read"), free)
      .def("revoke_all", &Window::RevokeAll, py::kw_only(), py::arg("read") = true, free)
      .def("resize", &Window::Resize, py::arg("size"), free)
      .def("unsure", &Window::Unsure, free)
      .def(
          "mark_in", [](Window& w, int fd) { w.MarkIn(Duplicate(fd)); }, py::arg("fd"))
      .def("generation", &Window::Generation, py::arg("generation"))
      .def("until", &Until, py::arg("seconds"))
      .def("allow", &Allow, py::kw_only(), py::arg("writes"), py::arg("fresh"))
      .def("take_written", &Window::TakeWritten)
      .def("take_paged", &Window::TakePaged)
      .def("take_modified", &Window::TakeModified)
      .def(
          "counts", [](Window& w, uint64_t first, uint64_t n) { return w.Counts(first, n, false); },
          py::arg("first"), py::arg("count"))
      .def(
          "take_counts",
          [](Window& w, uint64_t first, uint64_t n) { return w.Counts(first, n, true); },
          py::arg("first"), py::arg("count"))
      .def("take_dirty", [](Window& w) { return w.Take(Window::kDirty); })
      .def("take_used", [](Window& w) { return w.Take(Window::kUsed); })
      .def_property_readonly("whole", &Window::whole)
      .def_property_readonly("exact", &Window::exact)
      .def_property_readonly("written", &Window::written)
      .def_property_readonly("paged", &Window::paged)
      .def_property_readonly("size", &Window::size)
      .def_property_readonly("modified", &Window::modified)
      .def_property_readonly("reads", &Window::reads)
      .def_property_readonly("writes", &Window::writes)
      .def_property_readonly_static("UNLIMITED",
                                    [](const py::object&) { return Window::kUnlimited; });
}

void init_session(py::module_& m) {
  const auto free = py::call_guard<py::gil_scoped_release>();
  py::class_<Session>(m, "NativeSession")
      .def_static(
          "mounted",
          [](py::object operations, int fd, unsigned threads) {
            return Session::Mounted(std::move(operations), Duplicate(fd), threads);
          },
          py::arg("operations"), py::arg("fd"), py::arg("threads"))
      .def_static(
          "relayed",
          [](py::object operations, int fd, const py::bytes& init, bool notified,
             unsigned threads) {
            return Session::Relayed(std::move(operations), Duplicate(fd), init, notified, threads);
          },
          py::arg("operations"), py::arg("fd"), py::arg("init"), py::arg("notified"),
          py::arg("threads"))
      .def("run", &Session::Run)
      .def("stop", &Session::Stop)
      .def(
          "invalidate",
          [](Session& self, uint64_t file, int64_t offset, int64_t length) {
            Notify([&] { return self.Invalidate(file, offset, length); });
          },
          py::arg("file"), py::arg("offset"), py::arg("length"))
      .def(
          "invalidate_entry",
          [](Session& self, uint64_t parent, const std::string& name) {
            Notify([&] { return self.InvalidateEntry(parent, name); });
          },
          py::arg("parent"), py::arg("name"))
      .def(
          "attach",
          [](Session& self, uint64_t handle, std::shared_ptr<Window> window) {
            self.files().Add(handle, std::move(window));
          },
          py::arg("handle"), py::arg("window"))
      .def(
          "drain", [](Session& self, double seconds) { return self.Drain(Milliseconds(seconds)); },
          py::arg("seconds"), free)
      .def("resume", &Session::Resume, free)
      .def_property_readonly("init", [](Session& self) { return py::bytes(self.init()); })
      .def_property_readonly("maps_shared", &Session::maps_shared)
      .def_property_readonly("refused", &Session::refused);
}

}  // namespace satchel
