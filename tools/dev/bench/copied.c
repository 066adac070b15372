// Preloaded into a program: counts the bytes that its memcpy and memmove move in one piece of 4 KiB
// and more, in the first 8 bytes of the file that the environment variable WEFT_COPIED names.
//
// Threading: any thread.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t kBulk = 4096;
static uint64_t until_mapped;
static uint64_t* copied = &until_mapped;

static void move(unsigned char* to, const unsigned char* from, size_t size) {
  if (size >= kBulk) __atomic_fetch_add(copied, size, __ATOMIC_RELAXED);
  if (to <= from || to >= from + size) {
    while (size-- > 0) *to++ = *from++;
  } else {
    while (size-- > 0) to[size] = from[size];
  }
}

void* memcpy(void* to, const void* from, size_t size) {
  move(to, from, size);
  return to;
}

void* memmove(void* to, const void* from, size_t size) {
  move(to, from, size);
  return to;
}

__attribute__((constructor)) static void map_count(void) {
  const char* path = getenv("WEFT_COPIED");
  if (path == NULL) return;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof *copied) != 0) return;
  void* at = mmap(NULL, sizeof *copied, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at != MAP_FAILED) copied = at;
}
