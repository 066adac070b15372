#include "tests/simulation/world/stack_switch.h"

#include <pthread.h>
#include <sys/auxv.h>

#ifndef __x86_64__
#error "the simulation's switch of stacks is written for x86-64"
#endif

// What a called function must keep is on the stack that is left: six registers, and where it was
// called from. The control words of SSE and x87 are the same everywhere: no program of ours sets
// them. FS is set by its instruction where the kernel allows that, else by arch_prctl(ARCH_SET_FS).
__asm__(R"(
  .text
  .globl weft_sim_switch_stack
  .hidden weft_sim_switch_stack
  .type weft_sim_switch_stack, @function
weft_sim_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  testl %ecx, %ecx
  je 1f
  wrfsbase %rdx
  jmp 2f
1:
  movl $158, %eax
  movl $0x1002, %edi
  movq %rdx, %rsi
  syscall
2:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size weft_sim_switch_stack, .-weft_sim_switch_stack
)");

extern "C" void weft_sim_switch_stack(void** from, void* to, std::uintptr_t thread_data,
                                      int has_instruction);

namespace weft::sim {

namespace {

bool has_instruction() {
  constexpr unsigned long kFsGsBase = 2;  // HWCAP2_FSGSBASE
  static const bool has = (getauxval(AT_HWCAP2) & kFsGsBase) != 0;
  return has;
}

}  // namespace

void switch_stack(Standing& from, const Standing& to) {
  weft_sim_switch_stack(&from.stack, to.stack, to.thread_data, has_instruction() ? 1 : 0);
}

Standing fresh_standing(void* top, void (*begin)()) {
  auto** place =
      reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15});
  *--place = nullptr;  // nobody to return to: stack traces end here
  *--place = reinterpret_cast<void*>(begin);
  for (int saved = 0; saved < 6; ++saved) *--place = nullptr;
  return {place, reinterpret_cast<std::uintptr_t>(pthread_self())};
}

}  // namespace weft::sim
