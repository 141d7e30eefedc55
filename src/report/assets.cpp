#include "report/assets.h"

#include "base/embed.h"

// The paths are compile definitions set in CMakeLists.txt.
KVPHASE_EMBED(kvphase::report, vega_js, KVPHASE_WEB "/vega/build/vega.min.js")
KVPHASE_EMBED(kvphase::report, vega_license, KVPHASE_WEB "/vega/LICENSE")
KVPHASE_EMBED(kvphase::report, vega_lite_js, KVPHASE_WEB "/vega-lite/build/vega-lite.min.js")
KVPHASE_EMBED(kvphase::report, vega_lite_license, KVPHASE_WEB "/vega-lite/LICENSE")
KVPHASE_EMBED(kvphase::report, page_css, KVPHASE_PAGE "/page.css")
KVPHASE_EMBED(kvphase::report, page_js, KVPHASE_PAGE "/page.js")
