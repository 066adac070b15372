#include "tests/simulation/world/fork.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace weft::sim {

void check_failed(const char* what, const char* file, int line) {
  const Real real;
  std::fprintf(stderr, "%s:%d: %s does not hold (at %.6f s)\n", file, line, what,
               static_cast<double>(now()) / kSecond);
  std::fflush(stderr);
  ::_exit(2);
}

Outcome in_simulation(const Options& options, const std::function<void()>& body) {
  void* const memory =
      ::mmap(nullptr, sizeof(Outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* const shared = new (memory) Outcome;
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    run(options, [&] {
      body();
      shared->fingerprint = fingerprint();
      shared->switches = switches();
    });
    std::fflush(nullptr);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Outcome outcome = *shared;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ::munmap(memory, sizeof(Outcome));
  return outcome;
}

}  // namespace weft::sim
