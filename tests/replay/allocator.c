// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// In a test guest: allocator FILE. Fills FILE with 64 KiB of "x", has fallocate(2) do all that it
// knows, and says of each mode "name errno size".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kSize = 64 << 10, kBlock = 4096 };

static void Try(int file, const char* name, int mode, long offset, long length) {
  const int error = fallocate(file, mode, offset, length) == 0 ? 0 : errno;
  struct stat found;
  if (fstat(file, &found) != 0) _exit(3);
  printf("%s %d %ld\n", name, error, (long)found.st_size);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  static char fill[kSize];
  memset(fill, 'x', kSize);
  const int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || write(file, fill, kSize) != kSize) return 1;
  Try(file, "keep-size", FALLOC_FL_KEEP_SIZE, kSize, kSize);
  Try(file, "punch-hole", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kBlock + 100, 2 * kBlock);
  Try(file, "zero-range", FALLOC_FL_ZERO_RANGE, 8 * kBlock, kBlock);
  Try(file, "reserve", 0, kSize, kBlock);
  Try(file, "zero-longer", FALLOC_FL_ZERO_RANGE, kSize, 2 * kBlock);
  Try(file, "collapse-range", FALLOC_FL_COLLAPSE_RANGE, 0, kBlock);
  Try(file, "insert-range", FALLOC_FL_INSERT_RANGE, 0, kBlock);
  return fsync(file) == 0 && close(file) == 0 ? 0 : 1;
}
