#include "report/markup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvphase::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Markup, EscapesEveryCharacterThatHtmlReads) {
  EXPECT_EQ(escape_html("<a href=\"x\" o='y'>&</a>"),
            "&lt;a href=&quot;x&quot; o=&#39;y&#39;&gt;&amp;&lt;/a&gt;");
  EXPECT_EQ(escape_html("one\ntwo"), "one two");
}

TEST(Markup, JsonCannotEndItsScript) {
  const base::Json json = {{"</script><script>", "<!-- & \u2028\u2029 -->"}};
  const std::string text = json_for_script(json);
  for (const char* part : {"<", ">", "&", "\u2028", "\u2029"}) {
    EXPECT_THAT(text, Not(HasSubstr(part)));
  }
  EXPECT_EQ(base::parse_json(text, "x"), json);
}

TEST(Markup, JsonWithBrokenUtf8IsStillJson) {
  EXPECT_EQ(base::parse_json(json_for_script("a\xFFz"), "x"), "a\uFFFDz");
}

TEST(Markup, TableCellsHaveASmallSecondLine) {
  const std::string html = table_html({{"name", "value"}, {{"<r>", "1\n[0 to 2]"}}}, "<cap>");
  EXPECT_THAT(html, HasSubstr("<td>1<small>[0 to 2]</small></td>"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">&lt;r&gt;</th>"));
  EXPECT_THAT(html, HasSubstr("</div>\n<p class=\"note\">&lt;cap&gt;</p>"));
}

}  // namespace
}  // namespace kvphase::report
