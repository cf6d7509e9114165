// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Names and attributes. All of it is asked.
#include <errno.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "shares/fuse/session.h"

namespace satchel {
namespace {

// Answers with what `act` returns, an operations.Entry.
template <typename Act>
void AnswerEntry(fuse_req_t request, const char* what, const Act& act) {
  fuse_entry_param entry = {};
  const int error = Session::Of(request)->policy().Ask(
      what, [&](const py::object& operations) { entry = EntryOf(act(operations)); });
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_entry(request, &entry);
  }
}

// The same, of operations.Attributes.
template <typename Act>
void AnswerAttributes(fuse_req_t request, const char* what, const Act& act) {
  struct stat attributes = {};
  double valid = 0;
  const int error = Session::Of(request)->policy().Ask(
      what, [&](const py::object& operations) { attributes = StatOf(act(operations), &valid); });
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_attr(request, &attributes, valid);
  }
}

template <typename Act>
void AnswerDone(fuse_req_t request, const char* what, const Act& act) {
  fuse_reply_err(request, Session::Of(request)->policy().Ask(what, act));
}

py::object HandleOf(const fuse_file_info* info) {
  return info == nullptr ? py::object(py::none()) : py::object(py::int_(info->fh));
}

void Lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  AnswerEntry(request, "lookup", [&](const py::object& operations) {
    return operations.attr("lookup")(parent, py::bytes(name));
  });
}

void ForgetAll(fuse_req_t request, size_t count, fuse_forget_data* forgets) {
  Session::Of(request)->policy().Ask("forget", [&](const py::object& operations) {
    for (size_t i = 0; i < count; ++i) {
      operations.attr("forget")(forgets[i].ino, forgets[i].nlookup);
    }
  });
  fuse_reply_none(request);
}

void Forget(fuse_req_t request, fuse_ino_t file, uint64_t count) {
  fuse_forget_data one = {file, count};
  ForgetAll(request, 1, &one);
}

void GetAttributes(fuse_req_t request, fuse_ino_t file, fuse_file_info* info) {
  AnswerAttributes(request, "attributes", [&](const py::object& operations) {
    return operations.attr("attributes")(file, HandleOf(info));
  });
}

py::object TimeOf(const timespec& time) {
  if (time.tv_sec == -1 && time.tv_nsec == kSecond - 1) return py::int_(-2);
  return py::int_(time.tv_sec) * py::int_(kSecond) + py::int_(time.tv_nsec);
}

// operations.Changes of what setattr(2)s say; -1 is now. (So the nanosecond before 1970 is the one
// before it.)
py::object ChangesOf(const Policy& policy, const struct stat& wanted, int which) {
  py::dict changes;
  if ((which & FUSE_SET_ATTR_MODE) != 0) changes["mode"] = wanted.st_mode;
  if ((which & FUSE_SET_ATTR_UID) != 0) changes["uid"] = wanted.st_uid;
  if ((which & FUSE_SET_ATTR_GID) != 0) changes["gid"] = wanted.st_gid;
  if ((which & FUSE_SET_ATTR_SIZE) != 0) changes["size"] = wanted.st_size;
  if ((which & FUSE_SET_ATTR_ATIME_NOW) != 0) {
    changes["accessed"] = -1;
  } else if ((which & FUSE_SET_ATTR_ATIME) != 0) {
    changes["accessed"] = TimeOf(wanted.st_atim);
  }
  if ((which & FUSE_SET_ATTR_MTIME_NOW) != 0) {
    changes["modified"] = -1;
  } else if ((which & FUSE_SET_ATTR_MTIME) != 0) {
    changes["modified"] = TimeOf(wanted.st_mtim);
  }
  return policy.changes()(**changes);
}

void SetAttributes(fuse_req_t request, fuse_ino_t file, struct stat* wanted, int which,
                   fuse_file_info* info) {
  AnswerAttributes(request, "change", [&](const py::object& operations) {
    const py::object changes = ChangesOf(Session::Of(request)->policy(), *wanted, which);
    return operations.attr("change")(file, changes, HandleOf(info));
  });
}

void ReadLink(fuse_req_t request, fuse_ino_t file) {
  std::string target;
  const int error =
      Session::Of(request)->policy().Ask("read_link", [&](const py::object& operations) {
        target = py::cast<std::string>(py::bytes(operations.attr("read_link")(file)));
      });
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_readlink(request, target.c_str());
  }
}

void MakeFolder(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  AnswerEntry(request, "make_folder", [&](const py::object& operations) {
    return operations.attr("make_folder")(parent, py::bytes(name), mode & ~S_IFMT, context->uid,
                                          context->gid);
  });
}

void MakeLink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
  const fuse_ctx* const context = fuse_req_ctx(request);
  AnswerEntry(request, "make_link", [&](const py::object& operations) {
    return operations.attr("make_link")(parent, py::bytes(name), py::bytes(target), context->uid,
                                        context->gid);
  });
}

void Link(fuse_req_t request, fuse_ino_t file, fuse_ino_t parent, const char* name) {
  AnswerEntry(request, "link", [&](const py::object& operations) {
    return operations.attr("link")(file, parent, py::bytes(name));
  });
}

void Unlink(fuse_req_t request, fuse_ino_t parent, const char* name) {
  AnswerDone(request, "unlink", [&](const py::object& operations) {
    operations.attr("unlink")(parent, py::bytes(name));
  });
}

void RemoveFolder(fuse_req_t request, fuse_ino_t parent, const char* name) {
  AnswerDone(request, "remove_folder", [&](const py::object& operations) {
    operations.attr("remove_folder")(parent, py::bytes(name));
  });
}

void Rename(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
            const char* new_name, unsigned flags) {
  AnswerDone(request, "rename", [&](const py::object& operations) {
    operations.attr("rename")(parent, py::bytes(name), new_parent, py::bytes(new_name), flags);
  });
}

void Usage(fuse_req_t request, fuse_ino_t file) {
  struct statvfs out = {};
  const int error = Session::Of(request)->policy().Ask("usage", [&](const py::object& operations) {
    const py::object usage = operations.attr("usage")(file);
    out.f_bsize = out.f_frsize = py::cast<unsigned long>(usage.attr("block"));
    out.f_blocks = py::cast<fsblkcnt_t>(usage.attr("blocks"));
    out.f_bfree = py::cast<fsblkcnt_t>(usage.attr("free"));
    out.f_bavail = py::cast<fsblkcnt_t>(usage.attr("available"));
    out.f_files = py::cast<fsfilcnt_t>(usage.attr("files"));
    out.f_ffree = out.f_favail = py::cast<fsfilcnt_t>(usage.attr("files_free"));
    out.f_namemax = 255;
  });
  if (error != 0) {
    fuse_reply_err(request, error);
  } else {
    fuse_reply_statfs(request, &out);
  }
}

}  // namespace

void AddNameCalls(fuse_lowlevel_ops* calls) {
  calls->lookup = &Lookup;
  calls->forget = &Forget;
  calls->forget_multi = &ForgetAll;
  calls->getattr = &GetAttributes;
  calls->setattr = &SetAttributes;
  calls->readlink = &ReadLink;
  calls->mkdir = &MakeFolder;
  calls->symlink = &MakeLink;
  calls->link = &Link;
  calls->unlink = &Unlink;
  calls->rmdir = &RemoveFolder;
  calls->rename = &Rename;
  calls->statfs = &Usage;
}

}  // namespace satchel
