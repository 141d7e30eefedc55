// The files that report.html carries inside itself. They are put into the library when it is
// built, so that a report needs no network and no installed files.
#pragma once

#include <string_view>

namespace kvphase::report {

std::string_view vega_js();            // Vega, minified
std::string_view vega_license();       // its BSD-3-Clause text
std::string_view vega_lite_js();       // Vega-Lite, minified
std::string_view vega_lite_license();  // its BSD-3-Clause text
std::string_view page_css();           // page/page.css
std::string_view page_js();            // page/page.js

}  // namespace kvphase::report
