// SPDX-FileCopyrightText: 2026 The Satchel authors
// SPDX-License-Identifier: Apache-2.0
//
// A service that asks the kernel itself for time and randomness, built static: `asking PORT [raw]`.
// raw: it does not look into the vDSO, which a host's kernel gives it, and tells a steady clock
// too.
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int raw;

static long long Clock(clockid_t clock) {
  struct timespec now = {0, 0};
  if (raw) {
    syscall(SYS_clock_gettime, clock, &now);
  } else {
    clock_gettime(clock, &now);
  }
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long long TimeOfDay(void) {
  struct timeval now = {0, 0};
  if (raw) {
    syscall(SYS_gettimeofday, &now, NULL);
  } else {
    gettimeofday(&now, NULL);
  }
  return now.tv_sec * 1000000LL + now.tv_usec;
}

static char* Hex(char* out, const unsigned char* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) out += sprintf(out, "%02x", bytes[i]);
  return out;
}

static char* Device(char* out, const char* path) {
  unsigned char drawn[16] = {0};
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, drawn, sizeof(drawn)) != sizeof(drawn)) abort();
  close(fd);
  return Hex(out, drawn, sizeof(drawn));
}

static void Answer(int client) {
  unsigned char drawn[16];
  char request[4096], body[1024], *out = body;
  if (read(client, request, sizeof(request)) <= 0) return;
  if (getrandom(drawn, sizeof(drawn), 0) != sizeof(drawn)) abort();
  out += sprintf(out, "{\"time_ns\": %lld, ", Clock(CLOCK_REALTIME));
  if (raw) out += sprintf(out, "\"monotonic\": %lld, ", Clock(CLOCK_MONOTONIC));
  out += sprintf(out, "\"microseconds\": %lld, ", TimeOfDay());
  out +=
      sprintf(out, "\"seconds\": %ld, \"drawn\": [\"", raw ? syscall(SYS_time, NULL) : time(NULL));
  out = Hex(out, drawn, sizeof(drawn));
  out = Device(out + sprintf(out, "\", \""), "/dev/urandom");
  out = Device(out + sprintf(out, "\", \""), "/dev/random");
  strcpy(out, "\"]}");
  dprintf(client, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
}

int main(int argc, char** argv) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
  raw = argc > 2;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(listener, (struct sockaddr*)&address, sizeof(address)) != 0) return 1;
  if (listen(listener, 8) != 0) return 1;
  for (;;) {
    const int client = accept(listener, NULL, NULL);
    Answer(client);
    close(client);
  }
}
