#include "guard/compose.h"

#include <cstdint>
#include <optional>

namespace kvphase::guard {
namespace {

struct Mark {
  char32_t mark;
  std::u32string_view letters;
  std::u32string_view joined;  // letters[i] with the mark
};

// The Unicode Character Database's canonical decompositions into two (UnicodeData.txt) of U+00C0 to
// U+024F and U+1E00 to U+1EFF, without those that composition excludes.
// clang-format off
constexpr Mark kMarks[] = {
    {U'\u0300', U"AEIOUaeiouÜüNnĒēŌōWwÂâĂăÊêÔôƠơƯưYy",
     U"ÀÈÌÒÙàèìòùǛǜǸǹḔḕṐṑẀẁẦầẰằỀềỒồỜờỪừỲỳ"},
    {U'\u0301', U"AEIOUYaeiouyCcLlNnRrSsZzÜüGgÅåÆæØø",
     U"ÁÉÍÓÚÝáéíóúýĆćĹĺŃńŔŕŚśŹźǗǘǴǵǺǻǼǽǾǿ"},
    {U'\u0301', U"ÇçĒēÏïKkMmÕõŌōPpŨũWwÂâĂăÊêÔôƠơƯư",
     U"ḈḉḖḗḮḯḰḱḾḿṌṍṒṓṔṕṸṹẂẃẤấẮắẾếỐốỚớỨứ"},
    {U'\u0302', U"AEIOUaeiouCcGgHhJjSsWwYyZzẠạẸẹỌọ",
     U"ÂÊÎÔÛâêîôûĈĉĜĝĤĥĴĵŜŝŴŵŶŷẐẑẬậỆệỘộ"},
    {U'\u0303', U"ANOanoIiUuVvÂâĂăEeÊêÔôƠơƯưYy",
     U"ÃÑÕãñõĨĩŨũṼṽẪẫẴẵẼẽỄễỖỗỠỡỮữỸỹ"},
    {U'\u0304', U"AaEeIiOoUuÜüÄäȦȧÆæǪǫÖöÕõȮȯYyGgḶḷṚṛ",
     U"ĀāĒēĪīŌōŪūǕǖǞǟǠǡǢǣǬǭȪȫȬȭȰȱȲȳḠḡḸḹṜṝ"},
    {U'\u0306', U"AaEeGgIiOoUuȨȩẠạ",
     U"ĂăĔĕĞğĬĭŎŏŬŭḜḝẶặ"},
    {U'\u0307', U"CcEeGgIZzAaOoBbDdFfHhMmNnPpRrSsŚśŠ",
     U"ĊċĖėĠġİŻżȦȧȮȯḂḃḊḋḞḟḢḣṀṁṄṅṖṗṘṙṠṡṤṥṦ"},
    {U'\u0307', U"šṢṣTtWwXxYyſ",
     U"ṧṨṩṪṫẆẇẊẋẎẏẛ"},
    {U'\u0308', U"AEIOUaeiouyYHhÕõŪūWwXxt",
     U"ÄËÏÖÜäëïöüÿŸḦḧṎṏṺṻẄẅẌẍẗ"},
    {U'\u0309', U"AaÂâĂăEeÊêIiOoÔôƠơUuƯưYy",
     U"ẢảẨẩẲẳẺẻỂểỈỉỎỏỔổỞởỦủỬửỶỷ"},
    {U'\u030A', U"AaUuwy", U"ÅåŮůẘẙ"},
    {U'\u030B', U"OoUu", U"ŐőŰű"},
    {U'\u030C', U"CcDdEeLlNnRrSsTtZzAaIiOoUuÜüGgKkƷʒ",
     U"ČčĎďĚěĽľŇňŘřŠšŤťŽžǍǎǏǐǑǒǓǔǙǚǦǧǨǩǮǯ"},
    {U'\u030C', U"jHh",
     U"ǰȞȟ"},
    {U'\u030F', U"AaEeIiOoRrUu", U"ȀȁȄȅȈȉȌȍȐȑȔȕ"},
    {U'\u0311', U"AaEeIiOoRrUu", U"ȂȃȆȇȊȋȎȏȒȓȖȗ"},
    {U'\u031B', U"OoUu", U"ƠơƯư"},
    {U'\u0323', U"BbDdHhKkLlMmNnRrSsTtVvWwZzAaEeIiOo",
     U"ḄḅḌḍḤḥḲḳḶḷṂṃṆṇṚṛṢṣṬṭṾṿẈẉẒẓẠạẸẹỊịỌọ"},
    {U'\u0323', U"ƠơUuƯưYy",
     U"ỢợỤụỰựỴỵ"},
    {U'\u0324', U"Uu", U"Ṳṳ"},
    {U'\u0325', U"Aa", U"Ḁḁ"},
    {U'\u0326', U"SsTt", U"ȘșȚț"},
    {U'\u0327', U"CcGgKkLlNnRrSsTtEeDdHh",
     U"ÇçĢģĶķĻļŅņŖŗŞşŢţȨȩḐḑḨḩ"},
    {U'\u0328', U"AaEeIiUuOo", U"ĄąĘęĮįŲųǪǫ"},
    {U'\u032D', U"DdEeLlNnTtUu", U"ḒḓḘḙḼḽṊṋṰṱṶṷ"},
    {U'\u032E', U"Hh", U"Ḫḫ"},
    {U'\u0330', U"EeIiUu", U"ḚḛḬḭṴṵ"},
    {U'\u0331', U"BbDdKkLlNnRrTtZzh",
     U"ḆḇḎḏḴḵḺḻṈṉṞṟṮṯẔẕẖ"},
};
// clang-format on

constexpr char32_t kFirstMark = U'\u0300';
constexpr char32_t kPastMarks = U'\u0370';

std::optional<char32_t> join(char32_t letter, char32_t mark) {
  for (const Mark& m : kMarks) {
    const std::size_t at = m.mark == mark ? m.letters.find(letter) : m.letters.npos;
    if (at != m.letters.npos) return m.joined[at];
  }
  return std::nullopt;
}

// The character of 1 to 3 bytes at `at`; of 0 bytes: none of these.
struct Read {
  char32_t character = 0;
  std::size_t bytes = 0;
};

Read read(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> char32_t {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto more = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  if (at < text.size() && byte(0) < 0x80U) return {byte(0), 1};
  if ((byte(0) & 0xE0U) == 0xC0U && more(1)) {
    return {((byte(0) & 0x1FU) << 6U) | (byte(1) & 0x3FU), 2};
  }
  if ((byte(0) & 0xF0U) == 0xE0U && more(1) && more(2)) {
    return {((byte(0) & 0x0FU) << 12U) | ((byte(1) & 0x3FU) << 6U) | (byte(2) & 0x3FU), 3};
  }
  return {};
}

// Of characters below U+10000.
std::string utf8(char32_t c) {
  const auto tail = [](char32_t bits) { return static_cast<char>(0x80U | (bits & 0x3FU)); };
  if (c < 0x80U) return {static_cast<char>(c)};
  if (c < 0x800U) return {static_cast<char>(0xC0U | (c >> 6U)), tail(c)};
  return {static_cast<char>(0xE0U | (c >> 12U)), tail(c >> 6U), tail(c)};
}

}  // namespace

std::string composed(std::string_view text) {
  std::string all;
  std::size_t last = 0;     // where the last character begins in `all`
  Read letter{.bytes = 0};  // that character; none: bytes that are no such character
  for (std::size_t at = 0; at < text.size();) {
    const Read next = read(text, at);
    const bool mark = next.character >= kFirstMark && next.character < kPastMarks;
    const auto joined =
        mark && letter.bytes > 0 ? join(letter.character, next.character) : std::nullopt;
    const std::size_t bytes = next.bytes > 0 ? next.bytes : 1;
    if (joined) {
      all.resize(last);
      all += utf8(*joined);
      letter.character = *joined;
    } else {
      last = all.size();
      all += text.substr(at, bytes);
      letter = next;
    }
    at += bytes;
  }
  return all;
}

}  // namespace kvphase::guard
