#include "base/signal_stack.h"

#include <array>
#include <csignal>

namespace kvphase::base {

void use_signal_stack() {
  constexpr std::size_t kBytes = 1 << 16;  // a frame with AVX-512's registers takes about 3 KB
  static std::array<char, kBytes> memory;
  stack_t stack = {};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  sigaltstack(&stack, nullptr);
}

}  // namespace kvphase::base
