// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Open files: what is answered through a window, and what is asked.
//
// A program's read(2) and write(2) are requests of their own: files are opened without cached
// pages. What is mapped has pages, which the kernel reads and writes by requests as well. A write
// says that it is one of those. A read says whose it is, but one of pages is nobody's.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shares/fuse/message.h"
#include "shares/fuse/session.h"

namespace satchel {
namespace {

// A thread's own, so that it is not made for each request.
std::vector<char>* Buffer() {
  thread_local std::vector<char> buffer;
  return &buffer;
}

void Release(Session* session, uint64_t handle, uint64_t lock_owner) {
  session->policy().Ask("release", [&](const py::object& operations) {
    operations.attr("release")(handle, lock_owner);
  });
  session->files().Remove(handle);
}

void Apply(Session* session, const Opened& opened, fuse_file_info* info) {
  session->files().Add(opened.number, opened.window);
  info->fh = opened.number;
  info->keep_cache = opened.keep_cache ? 1 : 0;
  info->direct_io = opened.direct ? 1 : 0;
}

void Open(fuse_req_t request, fuse_ino_t file, fuse_file_info* info) {
  Session* const session = Session::Of(request);
  Opened opened;
  const int error = session->policy().Ask("open", [&](const py::object& operations) {
    opened = OpenedOf(operations.attr("open")(file, info->flags));
  });
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  Apply(session, opened, info);
  // Nobody will release what nobody was told of.
  if (fuse_reply_open(request, info) == -ENOENT) Release(session, opened.number, 0);
}

// An entry and a handle, of a file that was made.
int Make(Session* session, fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
         int flags, fuse_entry_param* entry, Opened* opened) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  return session->policy().Ask("create", [&](const py::object& operations) {
    const py::tuple made = operations.attr("create")(parent, py::bytes(name), mode & ~S_IFMT, flags,
                                                     context->uid, context->gid);
    *entry = EntryOf(made[0]);
    *opened = OpenedOf(made[1]);
  });
}

void Create(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode,
            fuse_file_info* info) {
  Session* const session = Session::Of(request);
  fuse_entry_param entry = {};
  Opened opened;
  const int error = Make(session, request, parent, name, mode, info->flags, &entry, &opened);
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  Apply(session, opened, info);
  if (fuse_reply_create(request, &entry, info) == -ENOENT) Release(session, opened.number, 0);
}

void MakeNode(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t) {
  Session* const session = Session::Of(request);
  if (!S_ISREG(mode)) {
    fuse_reply_err(request, EPERM);
    return;
  }
  fuse_entry_param entry = {};
  Opened opened;
  const int flags = O_CREAT | O_EXCL | O_WRONLY;
  const int error = Make(session, request, parent, name, mode, flags, &entry, &opened);
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  session->files().Add(opened.number, opened.window);
  Release(session, opened.number, 0);
  fuse_reply_entry(request, &entry);
}

bool ReadsPages(const Session* session, const fuse_file_info* info) {
  return session->mounted() && info->lock_owner == 0;
}

bool WritesPages(const Session* session, const fuse_file_info* info) {
  return session->mounted() && info->writepage != 0;
}

// Whether the window answered.
bool ReadThrough(fuse_req_t request, Window* window, size_t size, off_t offset, bool pages) {
  std::vector<char>* const buffer = Buffer();
  ssize_t got;
  {
    Window::Pass pass(window);
    if (offset < 0 || !pass.MayRead(static_cast<uint64_t>(offset), &size)) return false;
    if (pages) pass.Page();
    if (buffer->size() < size) buffer->resize(size);
    do {
      got = pread(window->fd(), buffer->data(), size, offset);
    } while (got < 0 && errno == EINTR);
  }
  if (got < 0) {
    fuse_reply_err(request, errno);
  } else {
    fuse_reply_buf(request, buffer->data(), static_cast<size_t>(got));
  }
  return true;
}

void Read(fuse_req_t request, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) {
  Session* const session = Session::Of(request);
  const std::shared_ptr<Window> window = session->files().Find(info->fh);
  const bool pages = ReadsPages(session, info);
  if (window != nullptr && ReadThrough(request, window.get(), size, offset, pages)) return;
  const char* const call = pages ? "read_pages" : "read";
  std::string data;
  const int error = session->policy().Ask(call, [&](const py::object& operations) {
    data = py::cast<std::string>(py::bytes(operations.attr(call)(info->fh, offset, size)));
  });
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_buf(request, data.data(), std::min(data.size(), size));
  }
}

// What of the buffer was written, or -errno; nothing where the window may not be written.
std::optional<ssize_t> WriteThrough(Window* window, fuse_bufvec* data, off_t offset, bool append,
                                    bool pages) {
  const size_t size = fuse_buf_size(data);
  const uint64_t at = static_cast<uint64_t>(offset);
  Window::Pass pass(window);
  if (offset < 0) return std::nullopt;
  if (!(pages ? pass.MayWritePage(at, size) : pass.MayWrite(at, size, append))) {
    return std::nullopt;
  }
  fuse_bufvec to = FUSE_BUFVEC_INIT(size);
  to.buf[0].flags = static_cast<fuse_buf_flags>(FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK);
  to.buf[0].fd = window->fd();
  to.buf[0].pos = offset;
  const ssize_t written = fuse_buf_copy(&to, data, static_cast<fuse_buf_copy_flags>(0));
  if (written <= 0) return written;
  const int error = pass.Note(static_cast<uint64_t>(offset), static_cast<size_t>(written));
  pass.Wrote(static_cast<uint64_t>(offset), static_cast<size_t>(written));
  return error == 0 ? written : -error;
}

// As WriteThrough, by Python.
ssize_t WriteByAsking(Session* session, uint64_t handle, fuse_bufvec* data, off_t offset,
                      bool pages) {
  std::vector<char>* const buffer = Buffer();
  const size_t size = fuse_buf_size(data);
  if (buffer->size() < size) buffer->resize(size);
  fuse_bufvec to = FUSE_BUFVEC_INIT(size);
  to.buf[0].mem = buffer->data();
  const ssize_t got = fuse_buf_copy(&to, data, static_cast<fuse_buf_copy_flags>(0));
  if (got < 0) return got;
  ssize_t written = 0;
  const char* const call = pages ? "write_pages" : "write";
  const int error = session->policy().Ask(call, [&](const py::object& operations) {
    const py::bytes bytes(buffer->data(), static_cast<size_t>(got));
    written = py::cast<ssize_t>(operations.attr(call)(handle, offset, bytes));
  });
  return error != 0 ? -error : std::max<ssize_t>(written, 0);
}

void WriteBuffer(fuse_req_t request, fuse_ino_t, fuse_bufvec* data, off_t offset,
                 fuse_file_info* info) {
  Session* const session = Session::Of(request);
  const std::shared_ptr<Window> window = session->files().Find(info->fh);
  const bool pages = WritesPages(session, info);
  std::optional<ssize_t> written;
  if (window != nullptr) {
    written = WriteThrough(window.get(), data, offset, (info->flags & O_APPEND) != 0, pages);
  }
  if (!written) written = WriteByAsking(session, info->fh, data, offset, pages);
  if (*written < 0) {
    fuse_reply_err(request, static_cast<int>(-*written));
  } else {
    fuse_reply_write(request, static_cast<size_t>(*written));
  }
}

void Allocate(fuse_req_t request, fuse_ino_t, int mode, off_t offset, off_t length,
              fuse_file_info* info) {
  Session* const session = Session::Of(request);
  const int error = session->policy().Ask("allocate", [&](const py::object& operations) {
    operations.attr("allocate")(info->fh, mode, offset, length);
  });
  fuse_reply_err(request, error);
}

// Of SEEK_DATA and SEEK_HOLE; the kernel does the others by itself.
void Seek(fuse_req_t request, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) {
  off_t found = 0;
  const int error = Session::Of(request)->policy().Ask("seek", [&](const py::object& operations) {
    found = py::cast<off_t>(operations.attr("seek")(info->fh, offset, whence));
  });
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_lseek(request, found);
  }
}

void Flush(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  const int error = Session::Of(request)->policy().Ask("flush", [&](const py::object& operations) {
    operations.attr("flush")(info->fh, info->lock_owner);
  });
  fuse_reply_err(request, error);
}

void Sync(fuse_req_t request, fuse_ino_t, int data_only, fuse_file_info* info) {
  const int error = Session::Of(request)->policy().Ask("sync", [&](const py::object& operations) {
    operations.attr("sync")(info->fh, data_only != 0);
  });
  fuse_reply_err(request, error);
}

void ReleaseFile(fuse_req_t request, fuse_ino_t, fuse_file_info* info) {
  Release(Session::Of(request), info->fh, info->lock_owner);
  fuse_reply_err(request, 0);
}

}  // namespace

void AddFileCalls(fuse_lowlevel_ops* calls) {
  calls->open = &Open;
  calls->create = &Create;
  calls->mknod = &MakeNode;
  calls->read = &Read;
  calls->write_buf = &WriteBuffer;
  calls->fallocate = &Allocate;
  calls->lseek = &Seek;
  calls->flush = &Flush;
  calls->fsync = &Sync;
  calls->release = &ReleaseFile;
}

}  // namespace satchel
