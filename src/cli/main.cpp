#include "base/build_info.h"

#include <cstdio>

int main() {
  std::printf("kvphase %s\n", kvphase::base::build_version().c_str());
  return 0;
}
