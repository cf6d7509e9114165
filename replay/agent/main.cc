// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// satchel-agent: PID 1 of a guest. With --unit a service of a guest that has an init of its own.
// With
// --no-init an ordinary process of a host, for tests:
//   satchel-agent --no-init (--listen SOCKET | --port PATH) [--shares SOCKET] [--streams SOCKET]
//                 [--config FILE]
#include <string.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "replay/agent/agent.h"
#include "replay/agent/init.h"
#include "replay/agent/sys.h"

namespace {

struct Options {
  bool no_init = false;
  bool unit = false;
  satchel::Port::Kind kind = satchel::Port::Kind::kVirtio;
  std::string path = satchel::Port::kAgent;
  satchel::Port::Kind shares_kind = satchel::Port::Kind::kVirtio;
  std::string shares = satchel::Port::kShares;
  satchel::Port::Kind streams_kind = satchel::Port::Kind::kVirtio;
  std::string streams = satchel::Port::kStreams;
  std::string config = "/etc/satchel/service";
};

// False if an argument is not known. The kernel hands PID 1 words of its own command line.
bool ParseOptions(int argc, char** argv, Options* options) {
  bool known = true;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--no-init") {
      options->no_init = true;
    } else if (name == "--unit") {
      options->unit = true;
    } else if (i + 1 < argc && name == "--listen") {
      options->kind = satchel::Port::Kind::kListening;
      options->path = argv[++i];
    } else if (i + 1 < argc && name == "--port") {
      options->kind = satchel::Port::Kind::kDevice;
      options->path = argv[++i];
    } else if (i + 1 < argc && name == "--shares") {
      options->shares_kind = satchel::Port::Kind::kListening;
      options->shares = argv[++i];
    } else if (i + 1 < argc && name == "--streams") {
      options->streams_kind = satchel::Port::Kind::kListening;
      options->streams = argv[++i];
    } else if (i + 1 < argc && name == "--config") {
      options->config = argv[++i];
    } else {
      known = false;
    }
  }
  return known;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const bool known = ParseOptions(argc, argv, &options);
  const bool init = !options.no_init && !options.unit;
  if ((!known && !init) || (init && getpid() != 1)) {
    satchel::Say(
        "it is PID 1 of a guest; elsewhere: --unit, or --no-init (--listen SOCKET | --port PATH) "
        "[--shares SOCKET] [--streams SOCKET] [--config FILE]");
    return 2;
  }
  if (init) satchel::PrepareGuest();
  satchel::RaiseFileLimit();
  satchel::Agent agent(
      satchel::Port(options.kind, options.path), satchel::Port(options.shares_kind, options.shares),
      satchel::Port(options.streams_kind, options.streams), options.config, !options.no_init);
  agent.Run();
  return 0;
}
