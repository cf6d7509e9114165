// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// How the core says that something went wrong. No exception crosses the core.
//
// A Status that is not ok carries a kind (few: callers branch on it), what was being done and on
// what, the cause, and where it concerns one thing that has a name in bytes, that name.
#ifndef SATCHEL_CHUNKSTORE_CORE_OS_STATUS_H_
#define SATCHEL_CHUNKSTORE_CORE_OS_STATUS_H_

#include <cstdint>
#include <memory>
#include <string>

namespace satchel {

enum class Kind : uint8_t {
  kOk = 0,
  kMissing,      // a chunk or a table page is not here
  kInvalid,      // a chunk is not what its reference says
  kNotFound,     // no such file or store
  kExists,       // it is there already
  kLocked,       // another process has it
  kDamaged,      // a file of ours is malformed
  kFull,         // no space, or a limit of the format is reached
  kDenied,       // no permission, or read-only
  kGone,         // the device under a file went away
  kUnsupported,  // a newer version, or a file system that cannot do it
  kUsage,        // an argument that cannot be meant
  kState,        // closed, or refused after an earlier failure
  kIo,           // any other error of the system
  kCancelled,    // the caller's progress function asked to stop
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status(Status&&) noexcept = default;
  Status& operator=(const Status& other) {
    if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }
  Status& operator=(Status&&) noexcept = default;

  static Status Make(Kind kind, std::string what, std::string why = {}, std::string subject = {});

  // The kind follows from the error number (ENOSPC is kFull, EROFS is kDenied ...).
  static Status FromErrno(std::string what, int error);

  bool ok() const { return rep_ == nullptr; }
  Kind kind() const { return rep_ ? rep_->kind : Kind::kOk; }
  bool Is(Kind kind) const { return this->kind() == kind; }

  // Valid only when not ok.
  const std::string& what() const { return rep_->what; }
  const std::string& why() const { return rep_->why; }
  const std::string& subject() const { return rep_->subject; }  // see format/chunk_status.h

  std::string ToString() const;

 private:
  struct Rep {
    Kind kind;
    std::string what;
    std::string why;
    std::string subject;
  };

  std::unique_ptr<Rep> rep_;
};

}  // namespace satchel

// Returns from the calling function unless `expression` is ok.
#define SATCHEL_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    ::satchel::Status satchel_status_ = (expression);  \
    if (!satchel_status_.ok()) return satchel_status_; \
  } while (0)

#endif  // SATCHEL_CHUNKSTORE_CORE_OS_STATUS_H_
