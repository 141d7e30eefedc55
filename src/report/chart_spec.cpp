#include "report/chart_spec.h"

namespace kvphase::report {

using base::Json;

Json base_spec(const std::string& description, int height) {
  const char* font = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  return {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
          {"description", description},
          {"width", "container"},
          {"height", height},
          {"background", nullptr},
          {"autosize", {{"type", "fit-x"}, {"contains", "padding"}}},
          {"padding", {{"left", 2}, {"right", 8}, {"top", 8}, {"bottom", 2}}},
          {"config",
           {{"font", font},
            {"view", {{"stroke", nullptr}}},
            {"axis",
             {{"labelColor", "var(--ink-2)"},
              {"titleColor", "var(--ink-2)"},
              {"gridColor", "var(--grid)"},
              {"domainColor", "var(--axis)"},
              {"tickColor", "var(--axis)"},
              {"labelFontSize", 12},
              {"titleFontSize", 12},
              {"titleFontWeight", "normal"},
              {"labelPadding", 6},
              {"titlePadding", 10}}}}}};
}

Json with(Json base, const Json& more) {
  base.update(more);
  return base;
}

}  // namespace kvphase::report
