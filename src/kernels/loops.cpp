#include "kernels/loops.h"

namespace kvphase::kernels {

#define KVPHASE_DECLARE_LOOPS(isa)     \
  namespace isa {                      \
  const Loops<float>& float_loops();   \
  const Loops<double>& double_loops(); \
  }

KVPHASE_DECLARE_LOOPS(generic)
#ifdef KVPHASE_X86_LOOPS
KVPHASE_DECLARE_LOOPS(avx2)
KVPHASE_DECLARE_LOOPS(avx512)

namespace {

bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

}  // namespace

const Loops<float>& float_loops() {
  static const Loops<float>& loops = has_avx512() ? avx512::float_loops()
                                     : has_avx2() ? avx2::float_loops()
                                                  : generic::float_loops();
  return loops;
}

const Loops<double>& double_loops() {
  static const Loops<double>& loops = has_avx512() ? avx512::double_loops()
                                      : has_avx2() ? avx2::double_loops()
                                                   : generic::double_loops();
  return loops;
}
#else
const Loops<float>& float_loops() { return generic::float_loops(); }
const Loops<double>& double_loops() { return generic::double_loops(); }
#endif

}  // namespace kvphase::kernels
