#define KVPHASE_ISA avx512
#include "kernels/loops_body.h"
