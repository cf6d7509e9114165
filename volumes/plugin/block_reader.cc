// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// satchel-block-reader PACKS PLACES...: reads blocks of packs for the nbdkit of one machine, which
// sees no pack itself: packs have chunks of every tenant.
//
//   PACKS   a descriptor of the store's folder of packs. This process has no path to it.
//   PLACES  for each volume, in the order of the plugin's settings, the places that the daemon has
//           given out for its blocks (block_map_file.h)
//
// Whoever connects to descriptor 3, which listens, asks by volume and block, as in the miss
// protocol (miss_protocol.h), and gets the content of that block of that volume. A request names no
// place in a pack, so it reads nothing that its own volumes do not name.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "chunkstore/core/format/block_map.h"
#include "chunkstore/core/os/env.h"
#include "chunkstore/core/packs/pack_reader.h"
#include "chunkstore/core/volume/block_map_file.h"
#include "volumes/plugin/miss_protocol.h"

namespace satchel {
namespace {

constexpr int kListener = 3;
constexpr int kTries = 8;  // of a block whose place changes while it is read

class BlockReader {
 public:
  explicit BlockReader(PackReader* packs) : packs_(packs) {}

  Status Add(const std::string& places) {
    volumes_.emplace_back();
    return PlacesFile::Open(places, /*writable=*/false, &volumes_.back());
  }

  // Answers one connection until its other end closes it or sends a malformed request.
  void Serve(int fd) const {
    std::vector<uint8_t> content(size_t{kMissLimit} * kBlockSize);
    MissRequest request;
    while (Receive(fd, &request) && Sound(request)) {
      const bool read = Read(request, content.data());
      MissReply reply{read ? kMissContentMagic : kMissReplyMagic, read ? 0u : uint32_t{EIO}};
      const size_t bytes = read ? size_t{request.count} * kBlockSize : 0;
      if (!Send(fd, &reply, content.data(), bytes)) break;
    }
    close(fd);
  }

 private:
  static bool Receive(int fd, MissRequest* request) {
    return recv(fd, request, sizeof *request, MSG_WAITALL) == sizeof *request;
  }

  bool Sound(const MissRequest& request) const {
    if (request.magic != kMissRequestMagic || request.volume >= volumes_.size()) return false;
    if (request.count == 0 || request.count > kMissLimit) return false;
    const uint64_t blocks = volumes_[request.volume]->blocks();
    return request.first < blocks && request.count <= blocks - request.first;
  }

  bool Read(const MissRequest& request, uint8_t* out) const {
    const PlacesFile& places = *volumes_[request.volume];
    for (uint32_t i = 0; i < request.count;) {
      const uint32_t run = ReadRun(places, request.first + i, request.count - i, out);
      const uint32_t done = run > 0 ? run : ReadOne(places, request.first + i, out);
      if (done == 0) return false;
      i += done;
      out += size_t{done} * kBlockSize;
    }
    return true;
  }

  // Reads blocks whose records lie side by side. Their number, 0 for a single one.
  uint32_t ReadRun(const PlacesFile& places, uint64_t first, uint32_t count, uint8_t* out) const {
    Location at[PackReader::kMaxRun];
    uint32_t n = 0;
    while (n < count && n < PackReader::kMaxRun) {
      const uint64_t word = places.Load(first + n);
      if (word == 0) break;
      at[n] = DecodeLocation(word);
      if (n > 0 && !PackReader::Follows(at[n], at[n - 1])) break;
      ++n;
    }
    return n >= 2 && packs_->ReadRun(at, n, out).ok() ? n : 0;
  }

  // 1, or 0 if it cannot be read where the daemon says that it is.
  uint32_t ReadOne(const PlacesFile& places, uint64_t block, uint8_t* out) const {
    uint64_t word = places.Load(block);
    for (int tries = 0; word != 0 && tries < kTries; ++tries) {
      const Status status = packs_->ReadBlock(DecodeLocation(word), out);
      if (status.ok()) return 1;
      const uint64_t now = places.Load(block);
      if (now == word) {
        std::fprintf(stderr, "cannot read a block: %s\n", status.ToString().c_str());
        return 0;
      }
      word = now;
    }
    return 0;
  }

  static bool Send(int fd, MissReply* reply, uint8_t* content, size_t bytes) {
    iovec parts[2] = {{reply, sizeof *reply}, {content, bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    size_t left = sizeof *reply + bytes;
    while (left > 0) {
      const ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      left -= static_cast<size_t>(n);
      auto sent = static_cast<size_t>(n);
      for (iovec& part : parts) {
        const size_t taken = sent < part.iov_len ? sent : part.iov_len;
        part.iov_base = static_cast<uint8_t*>(part.iov_base) + taken;
        part.iov_len -= taken;
        sent -= taken;
      }
    }
    return true;
  }

  PackReader* const packs_;
  std::vector<std::unique_ptr<PlacesFile>> volumes_;
};

int Fail(const std::string& what) {
  std::fprintf(stderr, "satchel-block-reader: %s\n", what.c_str());
  return 1;
}

int Main(int argc, char** argv) {
  if (argc < 3) return Fail("usage: satchel-block-reader PACKS PLACES...");
  if (fchdir(std::atoi(argv[1])) != 0) return Fail("cannot use the folder of packs");
  prctl(PR_SET_DUMPABLE, 0);  // no other program of this user looks into it
  PackReader packs(PosixEnv(), ".");
  BlockReader reader(&packs);
  for (int i = 2; i < argc; ++i) {
    const Status status = reader.Add(argv[i]);
    if (!status.ok()) return Fail(status.ToString());
  }
  for (;;) {
    const int fd = accept4(kListener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
      poll(nullptr, 0, 10);
      continue;
    }
    if (fd < 0) return Fail("cannot accept a connection");
    try {
      std::thread([&reader, fd] { reader.Serve(fd); }).detach();
    } catch (const std::system_error&) {  // no more threads
      close(fd);
    }
  }
}

}  // namespace
}  // namespace satchel

int main(int argc, char** argv) { return satchel::Main(argc, argv); }
