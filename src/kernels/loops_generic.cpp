#define KVPHASE_ISA generic
#include "kernels/loops_body.h"
