// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// In a test guest: holder FILE GO STATE. Opens and locks FILE, writes "first\n", says "held" in
// STATE, waits until the pipe GO is written to, checks that it holds the lock alone as before,
// writes "second\n" through the same descriptor, unlocks, says "done".
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static void Say(const char* path, const char* word) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || write(file, word, strlen(word)) < 0) _exit(3);
  close(file);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  const int file = open(argv[1], O_RDWR | O_CREAT, 0644);
  if (file < 0 || fcntl(file, F_SETLK, &lock) != 0 || write(file, "first\n", 6) != 6) {
    Say(argv[3], "failed\n");
    return 1;
  }
  Say(argv[3], "held\n");
  const int go = open(argv[2], O_RDONLY);
  char line[16];
  if (read(go, line, sizeof(line)) <= 0) return 1;
  const int again = fcntl(file, F_SETLK, &lock);
  const long wrote = write(file, "second\n", 7);
  lock.l_type = F_UNLCK;
  const int unlocked = fcntl(file, F_SETLK, &lock);
  Say(argv[3], again == 0 && wrote == 7 && unlocked == 0 ? "done\n" : "failed\n");
  return 0;
}
