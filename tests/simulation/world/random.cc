// Randomness by the seed: the kernel's, the C library's, OpenSSL's and std::random_device.
#include <openssl/rand.h>
#include <stdlib.h>
#include <sys/random.h>

#include <cstdint>

#include "tests/simulation/world/real.h"
#include "tests/simulation/world/scheduler.h"

using namespace weft;  // NOLINT: what follows has names of the C library

namespace {

void fill(void* out, std::size_t bytes) {
  auto* const to = static_cast<std::uint8_t*>(out);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<std::uint8_t>(sim::choose(256));
}

}  // namespace

extern "C" {

ssize_t getrandom(void* out, size_t bytes, unsigned flags) {
  if (!sim::active()) return WEFT_REAL(getrandom)(out, bytes, flags);
  fill(out, bytes);
  return static_cast<ssize_t>(bytes);
}
int getentropy(void* out, size_t bytes) {
  if (!sim::active()) return WEFT_REAL(getentropy)(out, bytes);
  fill(out, bytes);
  return 0;
}
uint32_t arc4random() {
  if (!sim::active()) return WEFT_REAL(arc4random)();
  return static_cast<uint32_t>(sim::choose(std::uint64_t{1} << 32));
}
void arc4random_buf(void* out, size_t bytes) {
  if (!sim::active()) return WEFT_REAL(arc4random_buf)(out, bytes);
  fill(out, bytes);
}
uint32_t arc4random_uniform(uint32_t bound) {
  if (!sim::active()) return WEFT_REAL(arc4random_uniform)(bound);
  return bound < 2 ? 0 : static_cast<uint32_t>(sim::choose(bound));
}
int RAND_bytes(unsigned char* out, int bytes) {
  if (!sim::active()) return WEFT_REAL(RAND_bytes)(out, bytes);
  fill(out, static_cast<std::size_t>(bytes));
  return 1;
}
int RAND_priv_bytes(unsigned char* out, int bytes) {
  if (!sim::active()) return WEFT_REAL(RAND_priv_bytes)(out, bytes);
  fill(out, static_cast<std::size_t>(bytes));
  return 1;
}

// std::random_device::operator(): the processor's instruction, as libstdc++ has it.
unsigned random_device_value(void* device) __asm__("_ZNSt13random_device9_M_getvalEv");
unsigned random_device_value(void* device) {
  static const auto real = reinterpret_cast<decltype(&random_device_value)>(
      dlsym(RTLD_NEXT, "_ZNSt13random_device9_M_getvalEv"));
  if (!sim::active()) return real(device);
  return static_cast<unsigned>(sim::choose(std::uint64_t{1} << 32));
}

}  // extern "C"
