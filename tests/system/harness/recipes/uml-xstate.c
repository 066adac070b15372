// Preloaded into User-mode Linux. Up to 6.12 it hands the host a floating point state of a fixed
// size (NT_X86_XSTATE), but the host's kernel takes only one of exactly its own size, and answers
// EFAULT otherwise: on processors with AMX the state is four times larger, and every machine dies
// at its first process. Here the state is padded to the host's size. The padding is zero and the
// state's header names no feature in it, so it restores nothing.
//
// One thread of User-mode Linux traces processes, hence the static buffers; its stacks are small.
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kMaxStateBytes = 65536 };
static char padded[kMaxStateBytes];
static size_t host_bytes;

// The kernel shortens the length it is given to its own state's size.
static size_t host_state_bytes(long pid) {
  struct iovec whole = {padded, sizeof padded};
  if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &whole) != 0) return 0;
  memset(padded, 0, sizeof padded);
  return whole.iov_len;
}

long ptrace(enum __ptrace_request request, ...) {
  va_list rest;
  va_start(rest, request);
  long pid = va_arg(rest, int);
  void* address = va_arg(rest, void*);
  void* data = va_arg(rest, void*);
  va_end(rest);

  const struct iovec* state = data;
  if (request == PTRACE_SETREGSET && address == (void*)NT_X86_XSTATE) {
    if (host_bytes == 0) host_bytes = host_state_bytes(pid);
    if (state->iov_len < host_bytes) {
      memcpy(padded, state->iov_base, state->iov_len);
      struct iovec whole = {padded, host_bytes};
      return syscall(SYS_ptrace, request, pid, address, &whole);
    }
  }
  // The C library's own wrapper returns what PEEK requests read; the system call stores it.
  if (request >= PTRACE_PEEKTEXT && request <= PTRACE_PEEKUSER) {
    long word = 0;
    long status = syscall(SYS_ptrace, request, pid, address, &word);
    return status < 0 ? status : word;
  }
  return syscall(SYS_ptrace, request, pid, address, data);
}
