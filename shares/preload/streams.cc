// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams of stdio. The C library reads and writes them by calls of its own that no other library
// is asked about, so a stream of a share's file is one of cookies. That goes for the standard ones
// too, where a shell has redirected them.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <map>

#include "shares/preload/files.h"
#include "shares/preload/place.h"

namespace satchel::preload {
namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

std::map<FILE*, int>& Streams() {
  static std::map<FILE*, int>* const streams = new std::map<FILE*, int>;
  return *streams;
}

struct Cookie {
  int fd;
  FILE* stream;
};

ssize_t Read(void* cookie, char* buffer, size_t size) {
  return read(static_cast<Cookie*>(cookie)->fd, buffer, size);
}

ssize_t Write(void* cookie, const char* buffer, size_t size) {
  const ssize_t written = write(static_cast<Cookie*>(cookie)->fd, buffer, size);
  return written < 0 ? 0 : written;
}

int Seek(void* cookie, off64_t* offset, int whence) {
  const off_t now = lseek(static_cast<Cookie*>(cookie)->fd, *offset, whence);
  if (now < 0) return -1;
  *offset = now;
  return 0;
}

int Close(void* cookie) {
  Cookie* const mine = static_cast<Cookie*>(cookie);
  pthread_mutex_lock(&mutex);
  Streams().erase(mine->stream);
  pthread_mutex_unlock(&mutex);
  const int fd = mine->fd;
  delete mine;
  return close(fd);
}

FILE* Stream(int fd, const char* mode) {
  Cookie* const cookie = new Cookie{fd, nullptr};
  const cookie_io_functions_t calls = {&Read, &Write, &Seek, &Close};
  cookie->stream = fopencookie(cookie, mode, calls);
  if (cookie->stream == nullptr) {
    delete cookie;
    return nullptr;
  }
  pthread_mutex_lock(&mutex);
  Streams()[cookie->stream] = fd;
  pthread_mutex_unlock(&mutex);
  return cookie->stream;
}

int FlagsOf(const char* mode) {
  const bool updates = strchr(mode, '+') != nullptr;
  int flags = updates ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
  if (*mode == 'w') flags |= O_CREAT | O_TRUNC;
  if (*mode == 'a') flags |= O_CREAT | O_APPEND;
  if (strchr(mode, 'x') != nullptr) flags |= O_EXCL;
  if (strchr(mode, 'e') != nullptr) flags |= O_CLOEXEC;
  return flags;
}

__attribute__((constructor)) void Begin() {
  if (FileOf(STDIN_FILENO) != 0) stdin = Stream(STDIN_FILENO, "r");
  if (FileOf(STDOUT_FILENO) != 0) stdout = Stream(STDOUT_FILENO, "w");
  if (FileOf(STDERR_FILENO) != 0) {
    stderr = Stream(STDERR_FILENO, "w");
    setvbuf(stderr, nullptr, _IONBF, 0);
  }
}

}  // namespace
}  // namespace satchel::preload

using namespace satchel::preload;  // NOLINT: what follows is C's names

EXPORT FILE* fopen(const char* path, const char* mode) {
  std::string below;
  if (!Below(AT_FDCWD, path, &below)) return NEXT(fopen)(path, mode);
  const int fd = OpenBelow(below, FlagsOf(mode), 0666);
  return fd < 0 ? nullptr : Stream(fd, mode);
}
EXPORT FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }

EXPORT FILE* fdopen(int fd, const char* mode) noexcept {
  return FileOf(fd) != 0 ? Stream(fd, mode) : NEXT(fdopen)(fd, mode);
}

EXPORT int fileno(FILE* stream) noexcept {
  pthread_mutex_lock(&mutex);
  const auto found = Streams().find(stream);
  const int fd = found == Streams().end() ? -1 : found->second;
  pthread_mutex_unlock(&mutex);
  return fd >= 0 ? fd : NEXT(fileno)(stream);
}
EXPORT int fileno_unlocked(FILE* stream) noexcept { return fileno(stream); }
