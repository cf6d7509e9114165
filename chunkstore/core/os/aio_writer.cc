// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
#include "chunkstore/core/os/aio_writer.h"

#include <libaio.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace satchel {
namespace {

class AioWriter final : public AsyncWriter {
 public:
  AioWriter(File* file, int direct, io_context_t context)
      : file_(file), direct_(direct), context_(context) {
    for (iocb& request : requests_) free_.push_back(&request);
  }
  ~AioWriter() override { io_destroy(context_); }  // waits for what is under way
  AioWriter(const AioWriter&) = delete;
  AioWriter& operator=(const AioWriter&) = delete;

  static constexpr size_t kRequests = 16;

  // What is no whole pages, and what the kernel does not take, is written before this returns.
  Status Write(uint64_t offset, const void* data, size_t n) override {
    const uint64_t together = offset | n | reinterpret_cast<uintptr_t>(data);
    if (together % File::kUncachedAlign != 0) return file_->WriteUncached(offset, data, n);
    if (free_.empty()) SATCHEL_RETURN_IF_ERROR(Reap());
    iocb* request = free_.back();
    io_prep_pwrite(request, direct_, const_cast<void*>(data), n, static_cast<long long>(offset));
    if (io_submit(context_, 1, &request) != 1) return file_->WriteUncached(offset, data, n);
    free_.pop_back();
    return {};
  }

  Status Wait() override {
    Status first;
    for (size_t under_way = kRequests - free_.size(); under_way > 0; --under_way) {
      Status status = Reap();
      if (first.ok()) first = std::move(status);
    }
    return first;
  }

 private:
  // Waits for one. What was not written of it is written the other way, which says why not.
  Status Reap() {
    io_event event{};
    int got = 0;
    while ((got = io_getevents(context_, 1, 1, &event, nullptr)) == -EINTR) {
    }
    if (got != 1) return Status::FromErrno("cannot wait for a write", -got);
    free_.push_back(event.obj);
    const auto& request = event.obj->u.c;
    const auto result = static_cast<long>(event.res);
    const size_t done = result > 0 ? static_cast<size_t>(result) : 0;
    if (done >= request.nbytes) return {};
    return file_->WriteAt(static_cast<uint64_t>(request.offset) + done,
                          static_cast<const char*>(request.buf) + done, request.nbytes - done);
  }

  File* const file_;
  const int direct_;
  const io_context_t context_;
  std::array<iocb, kRequests> requests_{};
  std::vector<iocb*> free_;
};

}  // namespace

std::unique_ptr<AsyncWriter> MakeAioWriter(File* file, int direct) {
  io_context_t context = nullptr;
  if (io_setup(AioWriter::kRequests, &context) != 0) return nullptr;
  return std::make_unique<AioWriter>(file, direct, context);
}

}  // namespace satchel
