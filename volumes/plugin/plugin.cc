// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// The nbdkit plugin: serves the volumes of one machine, each as the export of its name. Here is
// only what nbdkit calls; what a volume does is in volume.h.
//
// Files are opened in get_ready, while a failure still ends nbdkit with a message. No exception
// leaves a callback. Every failed request is logged by nbdkit_error with the volume's name.
#include <sys/prctl.h>

#include <cerrno>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunkstore/core/os/env.h"
#include "chunkstore/core/os/status.h"
#include "chunkstore/core/packs/pack_reader.h"
#include "volumes/plugin/config.h"
#include "volumes/plugin/miss_client.h"
#include "volumes/plugin/nbdkit_api.h"
#include "volumes/plugin/unpacked.h"
#include "volumes/plugin/volume.h"

namespace satchel {
namespace {

struct Server {
  Config config;
  std::unique_ptr<PackReader> packs;
  std::unique_ptr<Unpacked> unpacked;
  std::unique_ptr<MissClient> misses;
  std::unique_ptr<MissClient> reader;
  std::vector<std::unique_ptr<Volume>> volumes;
};

Server* server = nullptr;  // from load to unload

int ToErrno(const Status& status) {
  switch (status.kind()) {
    case Kind::kFull:
      return ENOSPC;
    case Kind::kDenied:
      return EPERM;
    case Kind::kCancelled:
      return ESHUTDOWN;
    default:
      return EIO;
  }
}

// Runs what a callback does. `where`: the volume's name, or null before there is one.
template <typename Action>
int Guarded(const char* where, Action action) noexcept {
  const char* prefix = where != nullptr ? where : "satchel";
  try {
    const Status status = action();
    if (status.ok()) return 0;
    nbdkit_error("%s: %s", prefix, status.ToString().c_str());
    nbdkit_set_error(ToErrno(status));
  } catch (const std::exception& error) {
    nbdkit_error("%s: %s", prefix, error.what());
    nbdkit_set_error(ENOMEM);
  }
  return -1;
}

template <typename Action>
int OnVolume(void* handle, Action action) noexcept {
  Volume* volume = static_cast<Volume*>(handle);
  return Guarded(volume->name().c_str(), [&] { return action(*volume); });
}

int Yes(void*) { return 1; }

void Load() { server = new Server; }

void Unload() {
  delete server;
  server = nullptr;
}

int Configure(const char* key, const char* value) {
  return Guarded(nullptr, [&] { return server->config.Set(key, value); });
}

int ConfigComplete() {
  return Guarded(nullptr, [] { return server->config.Complete(); });
}

// Without it every read of a frame decompresses, which is slower and nothing else.
void OpenUnpacked(const std::string& path) {
  const Status status = Unpacked::Open(path, &server->unpacked);
  if (!status.ok()) nbdkit_error("nothing is kept unpacked: %s", status.ToString().c_str());
}

int GetReady() {
  return Guarded(nullptr, [] {
    // nbdkit 1.32 asks to be ended with the thread that started it even without
    // --exit-with-parent; the machine on these volumes goes on without its daemon.
    if (prctl(PR_SET_PDEATHSIG, 0) != 0) return Status::FromErrno("cannot outlive a parent", errno);
    const Config& config = server->config;
    if (!config.packs.empty()) {
      server->packs = std::make_unique<PackReader>(PosixEnv(), config.packs);
    } else {
      server->reader =
          std::make_unique<MissClient>(MissClient::Peer::kReader, config.reader, config.miss_wait);
    }
    server->misses =
        std::make_unique<MissClient>(MissClient::Peer::kDaemon, config.misses, config.miss_wait);
    if (!config.unpacked.empty()) OpenUnpacked(config.unpacked);
    const Sources sources{server->packs.get(), server->reader.get(), server->unpacked.get(),
                          server->misses.get()};
    for (const VolumeConfig& volume : config.volumes) {
      const auto index = static_cast<uint32_t>(server->volumes.size());
      server->volumes.emplace_back();
      std::unique_ptr<File> overlay;
      const OpenMode mode = volume.read_only ? OpenMode::kRead : OpenMode::kReadWrite;
      SATCHEL_RETURN_IF_ERROR(PosixEnv()->Open(volume.overlay_path, mode, &overlay));
      SATCHEL_RETURN_IF_ERROR(
          Volume::Open(volume, index, std::move(overlay), sources, &server->volumes.back()));
    }
    return Status();
  });
}

// Threads of our own begin only here: nbdkit may fork before.
int AfterFork() {
  return Guarded(nullptr, [] {
    for (const auto& volume : server->volumes) SATCHEL_RETURN_IF_ERROR(volume->Start());
    return Status();
  });
}

int ListExports(int, int, nbdkit_exports* exports) {
  for (const auto& volume : server->volumes) {
    if (nbdkit_add_export(exports, volume->name().c_str(), nullptr) != 0) return -1;
  }
  return 0;
}

// A client that names no export means the only volume; with several there is no default.
const char* DefaultExport(int, int) {
  return server->volumes.size() == 1 ? server->volumes[0]->name().c_str() : nullptr;
}

void* Open(int) {
  const char* name = nbdkit_export_name();
  if (name == nullptr) return nullptr;
  for (const auto& volume : server->volumes) {
    if (volume->name() == name) return volume.get();
  }
  nbdkit_error("there is no volume \"%s\" here", name);
  nbdkit_set_error(ENOENT);
  return nullptr;
}

int64_t GetSize(void* handle) {
  return static_cast<int64_t>(static_cast<const Volume*>(handle)->size());
}

int CanWrite(void* handle) { return static_cast<const Volume*>(handle)->read_only() ? 0 : 1; }

int CanFua(void*) { return NBDKIT_FUA_NATIVE; }

int BlockSize(void*, uint32_t* minimum, uint32_t* preferred, uint32_t* maximum) {
  *minimum = 1;
  *preferred = kBlockSize;
  *maximum = UINT32_MAX;
  return 0;
}

Status Finish(Volume& volume, uint32_t flags, Status status) {
  if (!status.ok() || (flags & NBDKIT_FLAG_FUA) == 0) return status;
  return volume.Flush();
}

int Read(void* handle, void* data, uint32_t count, uint64_t offset, uint32_t) {
  return OnVolume(
      handle, [&](Volume& volume) { return volume.Read(offset, count, static_cast<char*>(data)); });
}

int Write(void* handle, const void* data, uint32_t count, uint64_t offset, uint32_t flags) {
  return OnVolume(handle, [&](Volume& volume) {
    return Finish(volume, flags, volume.Write(offset, count, static_cast<const char*>(data)));
  });
}

int Zero(void* handle, uint32_t count, uint64_t offset, uint32_t flags) {
  return OnVolume(
      handle, [&](Volume& volume) { return Finish(volume, flags, volume.Zero(offset, count)); });
}

int Trim(void* handle, uint32_t count, uint64_t offset, uint32_t flags) {
  return OnVolume(
      handle, [&](Volume& volume) { return Finish(volume, flags, volume.Trim(offset, count)); });
}

int Flush(void* handle, uint32_t) {
  return OnVolume(handle, [](Volume& volume) { return volume.Flush(); });
}

int Extents(void* handle, uint32_t count, uint64_t offset, uint32_t flags,
            nbdkit_extents* extents) {
  bool added = true;
  const int result = OnVolume(handle, [&](Volume& volume) {
    volume.Extents(offset, count, [&](uint64_t at, uint64_t length, bool zero) {
      const uint32_t type = zero ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0;
      added = nbdkit_add_extent(extents, at, length, type) == 0;
      return added && (flags & NBDKIT_FLAG_REQ_ONE) == 0;
    });
    return Status();
  });
  return added ? result : -1;
}

nbdkit_plugin Describe() {
  nbdkit_plugin plugin{};
  plugin.name = "satchel";
  plugin.longname = "Satchel volumes";
  plugin.description = "volumes of blocks over a chunk store, fetched when they are read";
  plugin.config_help =
      "packs=DIR            the store's folder of packs, or\n"
      "reader=SOCKET        who reads packed blocks for this plugin; one of them is required\n"
      "misses=SOCKET        (required) where to ask for absent blocks\n"
      "miss_wait=SECONDS    how long to look for somebody who answers there, by default 30\n"
      "unpacked=FILE        where blocks of frames are kept that were decompressed once\n"
      "volume=NAME:SIZE:MAPFILE:OVERLAYFILE[:ro]   (required, repeatable)";
  plugin.load = Load;
  plugin.unload = Unload;
  plugin.config = Configure;
  plugin.config_complete = ConfigComplete;
  plugin.get_ready = GetReady;
  plugin.after_fork = AfterFork;
  plugin.list_exports = ListExports;
  plugin.default_export = DefaultExport;
  plugin.open = Open;
  plugin.get_size = GetSize;
  plugin.block_size = BlockSize;
  plugin.can_write = CanWrite;
  plugin.can_flush = Yes;
  plugin.can_trim = Yes;
  plugin.can_zero = Yes;
  plugin.can_fast_zero = Yes;
  plugin.can_extents = Yes;
  plugin.can_multi_conn = Yes;
  plugin.can_fua = CanFua;
  plugin.pread = Read;
  plugin.pwrite = Write;
  plugin.zero = Zero;
  plugin.trim = Trim;
  plugin.flush = Flush;
  plugin.extents = Extents;
  return plugin;
}

nbdkit_plugin plugin = Describe();

}  // namespace
}  // namespace satchel

NBDKIT_REGISTER_PLUGIN(satchel::plugin)
