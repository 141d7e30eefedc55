// A stack of its own for signal handlers.
//
// oneDNN's float32 products (2.6, for inner dimensions such as 96) keep numbers below the stack
// pointer, further than the x86-64 ABI leaves alone there. A handler that runs on the ordinary
// stack overwrites them, and the product goes on to write anywhere. So every handler of a program
// that computes must be installed with SA_ONSTACK, after this.
#pragma once

namespace kvphase::base {

// For the main thread, to which the system delivers a process's signals.
void use_signal_stack();

}  // namespace kvphase::base
