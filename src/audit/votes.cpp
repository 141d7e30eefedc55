#include "audit/votes.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

namespace kvphase::audit {
namespace {

using record::Observation;

Observation decide(const std::vector<Observation>& versions) {
  struct Group {
    std::string vote;
    std::int64_t count = 0;
    const Observation* first = nullptr;
  };
  std::vector<Group> groups;
  for (const Observation& o : versions) {
    if (!o.correct) continue;
    const std::string vote = vote_of(o.answer);
    const auto known = std::ranges::find(groups, vote, &Group::vote);
    if (known != groups.end()) {
      ++known->count;
    } else {
      groups.push_back({.vote = vote, .count = 1, .first = &o});
    }
  }
  Observation decided = versions.front();
  decided.cached = 0;
  for (const Observation& o : versions) decided.cached += o.cached;
  decided.logprob = decided.margin = std::nullopt;
  decided.top.clear();
  const auto most = std::ranges::max_element(groups, {}, &Group::count);  // the first of equals
  if (most == groups.end()) return decided;
  decided.answer = most->first->answer;
  decided.reply_class = most->first->reply_class;
  decided.correct = most->first->correct;
  return decided;
}

}  // namespace

std::string vote_of(const std::string& answer) {
  constexpr std::string_view kAround = " \t\r\n\"'`*";
  std::string_view text = answer;
  text.remove_prefix(std::min(text.find_first_not_of(kAround), text.size()));
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && (kAround.find(text.back()) != kAround.npos || text.back() == '.')) {
    text.remove_suffix(1);
  }
  std::string vote(text);
  for (char& c : vote) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return vote;
}

std::vector<Observation> majority(std::span<const Observation> observations, std::int64_t votes,
                                  std::int64_t modulus) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Observation>> prompts;
  std::vector<Observation> sorted(observations.begin(), observations.end());
  std::ranges::stable_sort(sorted, {}, &Observation::item);  // versions in order
  for (Observation& o : sorted) {
    const std::int64_t version = o.item % votes;
    o.item /= votes;
    o.residue = ((o.residue - version) % modulus + modulus) % modulus;
    prompts[{o.item, o.residue}].push_back(std::move(o));
  }
  std::vector<Observation> all;
  for (const auto& [key, versions] : prompts) {
    Observation decided = decide(versions);
    std::tie(decided.item, decided.residue) = key;
    all.push_back(std::move(decided));
  }
  return all;
}

}  // namespace kvphase::audit
