#define KVPHASE_ISA avx2
#include "kernels/loops_body.h"
