// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// New randomness for OpenSSL in a machine that goes on elsewhere, or once more: preloaded into the
// programs of carried services (LD_PRELOAD).
//
// The agent makes the kernel's randomness anew (wakening.h). But OpenSSL draws from generators in
// the program's own memory, and takes of the kernel's again after an hour. So two machines of one
// checkpoint would say the same in TLS. SATCHEL_MOMENT is the path of the moment's file (moment.h),
// whose seed is another one after each wakening. When it is, the first call below has OpenSSL seed
// its first generator from the kernel, on which the others, one or two in each thread, depend.
//
// libssl begins each handshake with such a call, for the random bytes of its hello, and makes keys
// after it. Not covered: programs that have OpenSSL in themselves, and generators of other
// libraries; Go's and Rust's ask the kernel.
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/types.h>
#include <unistd.h>

#include "replay/agent/moment.h"

namespace {

using satchel::Moment;

constexpr size_t kFresh = 32;
constexpr const char* kLibraries[] = {"libcrypto.so.3", "libcrypto.so.1.1"};

const Moment kNone{};

const volatile Moment* Map() {
  const char* path = getenv("SATCHEL_MOMENT");
  const int fd = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return &kNone;
  void* map = mmap(nullptr, sizeof(Moment), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return map == MAP_FAILED ? &kNone : static_cast<const volatile Moment*>(map);
}

// Of the library that the caller has loaded; it may have been loaded for itself, as Python's
// modules are. Null where it has another name.
void* Real(const char* name) {
  for (const char* library : kLibraries) {
    void* handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    void* found = handle != nullptr ? dlsym(handle, name) : nullptr;
    if (found != nullptr) return found;
  }
  return dlsym(RTLD_NEXT, name);
}

// The kernel's, for whose own function is not found. Returns what RAND_bytes does.
int Fill(unsigned char* buffer, size_t size) {
  while (size > 0) {
    const ssize_t count = getrandom(buffer, size, 0);
    if (count <= 0) return 0;
    buffer += count;
    size -= static_cast<size_t>(count);
  }
  return 1;
}

// Two threads that come first after a wakening both do so, or the second one goes on a moment
// early.
void ReseedOnceWakened() {
  static const volatile Moment* const moment = Map();
  static uint64_t seen = moment->seed;
  const uint64_t seed = moment->seed;
  if (__atomic_load_n(&seen, __ATOMIC_ACQUIRE) == seed) return;
  uint8_t fresh[kFresh];
  const auto mix = reinterpret_cast<void (*)(const void*, int)>(Real("RAND_seed"));
  if (mix == nullptr || Fill(fresh, sizeof(fresh)) != 1) return;
  mix(fresh, sizeof(fresh));
  __atomic_store_n(&seen, seed, __ATOMIC_RELEASE);
}

// Before main, so that what is seen first is the seed of a machine that has drawn nothing yet.
__attribute__((constructor)) void Begin() { ReseedOnceWakened(); }

}  // namespace

extern "C" {

int RAND_bytes(unsigned char* buffer, int size) {
  static const auto real = reinterpret_cast<int (*)(unsigned char*, int)>(Real("RAND_bytes"));
  ReseedOnceWakened();
  if (real == nullptr) return size < 0 ? 0 : Fill(buffer, static_cast<size_t>(size));
  return real(buffer, size);
}

int RAND_priv_bytes(unsigned char* buffer, int size) {
  static const auto real = reinterpret_cast<int (*)(unsigned char*, int)>(Real("RAND_priv_bytes"));
  ReseedOnceWakened();
  if (real == nullptr) return size < 0 ? 0 : Fill(buffer, static_cast<size_t>(size));
  return real(buffer, size);
}

// A program that was built for OpenSSL 1.1 knows neither of these.
using WithContext = int (*)(void*, unsigned char*, size_t, unsigned);

int RAND_bytes_ex(void* context, unsigned char* buffer, size_t size, unsigned strength) {
  static const auto real = reinterpret_cast<WithContext>(Real("RAND_bytes_ex"));
  ReseedOnceWakened();
  return real == nullptr ? Fill(buffer, size) : real(context, buffer, size, strength);
}

int RAND_priv_bytes_ex(void* context, unsigned char* buffer, size_t size, unsigned strength) {
  static const auto real = reinterpret_cast<WithContext>(Real("RAND_priv_bytes_ex"));
  ReseedOnceWakened();
  return real == nullptr ? Fill(buffer, size) : real(context, buffer, size, strength);
}

}  // extern "C"
