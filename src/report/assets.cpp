#include "report/assets.h"

// The assembler reads the file; the paths are compile definitions set in CMakeLists.txt.
#define KVPHASE_EMBED(name, path)                                               \
  asm(".section .rodata\n" #name "_begin:\n.incbin \"" path "\"\n" #name        \
      "_end:\n.byte 0\n.previous\n");                                           \
  extern "C" __attribute__((visibility("hidden"))) const char name##_begin[];   \
  extern "C" __attribute__((visibility("hidden"))) const char name##_end[];     \
  namespace kvphase::report {                                                   \
  std::string_view name() {                                                     \
    return {name##_begin, static_cast<std::size_t>(name##_end - name##_begin)}; \
  }                                                                             \
  }

KVPHASE_EMBED(vega_js, KVPHASE_WEB "/vega/build/vega.min.js")
KVPHASE_EMBED(vega_license, KVPHASE_WEB "/vega/LICENSE")
KVPHASE_EMBED(vega_lite_js, KVPHASE_WEB "/vega-lite/build/vega-lite.min.js")
KVPHASE_EMBED(vega_lite_license, KVPHASE_WEB "/vega-lite/LICENSE")
KVPHASE_EMBED(page_css, KVPHASE_PAGE "/page.css")
KVPHASE_EMBED(page_js, KVPHASE_PAGE "/page.js")
