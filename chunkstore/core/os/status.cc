// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/os/status.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace satchel {
namespace {

Kind KindOfErrno(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Kind::kNotFound;
    case EEXIST:
      return Kind::kExists;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return Kind::kFull;
    case EACCES:
    case EPERM:
    case EROFS:
      return Kind::kDenied;
    case ENODEV:
    case ENXIO:
    case ENOTCONN:
    case ESTALE:
    case ENOMEDIUM:
    case ESHUTDOWN:
      return Kind::kGone;
    case EOPNOTSUPP:
    case ENOSYS:
      return Kind::kUnsupported;
    default:
      return Kind::kIo;
  }
}

}  // namespace

Status Status::Make(Kind kind, std::string what, std::string why, std::string subject) {
  Status status;
  status.rep_ = std::make_unique<Rep>();
  status.rep_->kind = kind;
  status.rep_->what = std::move(what);
  status.rep_->why = std::move(why);
  status.rep_->subject = std::move(subject);
  return status;
}

Status Status::FromErrno(std::string what, int error) {
  char text[128] = "";
  const char* message = strerror_r(error, text, sizeof text);
  return Make(KindOfErrno(error), std::move(what), message);
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return why().empty() ? what() : what() + ": " + why();
}

}  // namespace satchel
