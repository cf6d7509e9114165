// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "replay/agent/moment.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "replay/agent/sys.h"

namespace satchel {

MomentFile::MomentFile(const std::string& path) {
  if (path.empty()) return;
  mkdir(path.substr(0, path.rfind('/')).c_str(), 0755);
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  void* map = MAP_FAILED;
  if (fd.valid() && ftruncate(fd.get(), sizeof(Moment)) == 0) {
    map = mmap(nullptr, sizeof(Moment), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (map == MAP_FAILED) {
    Say("cannot make %s: %s", path.c_str(), strerror(errno));
  } else {
    moment_ = static_cast<volatile Moment*>(map);
  }
}

MomentFile::~MomentFile() {
  if (moment_ != nullptr) munmap(const_cast<Moment*>(moment_), sizeof(Moment));
}

void MomentFile::Set(uint64_t number, uint64_t time_ns, uint64_t seed, bool counts) {
  if (moment_ == nullptr) return;
  moment_->time_ns = time_ns;
  if (counts) {
    if (latest_ns_ == 0) moment_->steady_ns = time_ns;
    if (latest_ns_ != 0 && time_ns > latest_ns_) moment_->steady_ns += time_ns - latest_ns_;
    latest_ns_ = time_ns;
  }
  moment_->seed = seed;
  moment_->number = number;
}

}  // namespace satchel
