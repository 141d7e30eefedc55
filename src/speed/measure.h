// Measures one cell, in a process of its own so that peaks of memory and threads of libraries do
// not disturb other cells.
//
// The timed windows: one optimiser step with its data, gradients, clipping and update; one forward
// call; one prefill call into an empty cache; one decode call of one token behind the prompt; one
// attend() and the gradients of all its inputs. Weights and tokens are random: no operation's time
// depends on them.
// What the numbers are not: the speed of a server (no tokenizer, no sampling, no HTTP), of batches
// (decoding is of one sequence), or of the processor when other programs run.
#pragma once

#include "speed/cell.h"

namespace kvphase::speed {

// Throws the operation's errors; base::Error of kind kInterrupted when the user stops it.
Measured measure(const Cell& cell);

}  // namespace kvphase::speed
