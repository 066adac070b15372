// Preloaded into a server: syncs of files under the folder WEFT_SLOW_SYNC take WEFT_SLOW_SYNC_MS
// longer, and do not begin while a file "hold-syncs" is beside that folder. For tests of what waits
// for a disk, and what does not.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_first(int fd) {
  const char* folder = getenv("WEFT_SLOW_SYNC");
  const char* more = getenv("WEFT_SLOW_SYNC_MS");
  char link[64];
  char path[4096];
  char hold[4096];
  if (folder == NULL) return;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof(path) - 1);
  if (size < 0) return;
  path[size] = '\0';
  if (strncmp(path, folder, strlen(folder)) != 0) return;
  snprintf(hold, sizeof(hold), "%s/../hold-syncs", folder);
  while (access(hold, F_OK) == 0) usleep(1000);
  if (more != NULL) usleep((useconds_t)atoi(more) * 1000);
}

int fdatasync(int fd) {
  wait_first(fd);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}

int fsync(int fd) {
  wait_first(fd);
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
