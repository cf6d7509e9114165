// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// What somebody answers the plugin when it asks for absent blocks: the first byte says for how many
// (up to 16), the others are the answer, after which the connection ends.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "chunkstore/core/format/pack_format.h"
#include "tests/native/fuzz/require.h"
#include "volumes/plugin/miss_client.h"
#include "volumes/plugin/nbdkit_api.h"

using satchel::fuzz::Require;

// As when the NBD client has gone, so that nothing is tried again.
extern "C" void nbdkit_error(const char*, ...) {}
extern "C" int nbdkit_nanosleep(unsigned, unsigned) { return -1; }

namespace {

// Answers each connection with the same bytes.
class Daemon {
 public:
  Daemon() : path_("/tmp/satchel-fuzz-" + std::to_string(getpid())) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
    Require(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    Require(listen(listener_, 8) == 0);
    std::thread([this] { Serve(); }).detach();
  }

  const std::string& path() const { return path_; }

  void Answer(std::string answer) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }

 private:
  void Serve() {
    for (;;) {
      const int connection = accept(listener_, nullptr, nullptr);
      Require(connection >= 0);
      satchel::MissRequest request;
      Require(recv(connection, &request, sizeof request, MSG_WAITALL) == sizeof request);
      Require(request.magic == satchel::kMissRequestMagic && request.reserved == 0);
      {
        const std::lock_guard lock(mutex_);
        (void)send(connection, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      }
      close(connection);
    }
  }

  const std::string path_;
  int listener_ = -1;
  std::mutex mutex_;
  std::string answer_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  static Daemon daemon;
  static std::once_flag unlinked;
  const uint32_t count = data[0] % 16 + 1;
  const std::string answer(data + 1, data + size);
  daemon.Answer(answer);
  std::string content;
  satchel::Status status;
  // A thread of its own has a connection of its own.
  std::thread([&] {
    satchel::MissClient client(satchel::MissClient::Peer::kDaemon, daemon.path(), 0);
    status = client.Ask(3, 5, count, &content);
  }).join();
  std::call_once(unlinked, [] { std::atexit([] { (void)unlink(daemon.path().c_str()); }); });
  satchel::MissReply reply;
  if (!status.ok()) {
    Require(!status.what().empty());
    return 0;
  }
  Require(answer.size() >= sizeof reply);
  std::memcpy(&reply, answer.data(), sizeof reply);
  Require(reply.status == 0);
  if (content.empty()) {
    Require(reply.magic == satchel::kMissReplyMagic);
  } else {
    Require(reply.magic == satchel::kMissContentMagic);
    Require(content == answer.substr(sizeof reply, size_t{count} * satchel::kBlockSize));
    Require(content.size() == size_t{count} * satchel::kBlockSize);
  }
  return 0;
}
