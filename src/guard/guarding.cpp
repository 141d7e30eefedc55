#include "guard/guarding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "guard/body.h"
#include "guard/dispute.h"

namespace kvphase::guard {
namespace {

using base::Json;

// The version that speaks for an offset: the lowest with an answer; empty: none has one.
std::optional<std::int64_t> speaker(std::span<const VersionReply> replies,
                                    std::span<const Reply> answers, std::int64_t offset) {
  std::optional<std::int64_t> version;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].offset != offset || !answers[i].answered()) continue;
    version = std::min(version.value_or(replies[i].version), replies[i].version);
  }
  return version;
}

// The answers of the versions that speak for their offsets: those of one offset are to one prompt.
std::vector<Reply> spoken(std::span<const VersionReply> replies, std::span<const Reply> answers,
                          std::int64_t k) {
  std::vector<Reply> all;
  for (std::int64_t offset = 0; offset < k; ++offset) {
    const std::optional<std::int64_t> version = speaker(replies, answers, offset);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].offset == offset && replies[i].version == version) all.push_back(answers[i]);
    }
  }
  return all;
}

// One answer for each offset that has any.
std::vector<Reply> votes_of(std::span<const Reply> spoken, const Agreement& repeats) {
  std::vector<Reply> votes;
  for (const Reply& reply : spoken) {
    if (!reply.answered()) continue;
    const OffsetAnswers& at = repeats.offsets[static_cast<std::size_t>(reply.offset)];
    const bool wins =
        !at.most_frequent || normalised(reply.answer) == repeats.groups[*at.most_frequent].answer;
    const bool voted = std::ranges::find(votes, reply.offset, &Reply::offset) != votes.end();
    if (wins && !voted) votes.push_back(reply);
  }
  return votes;
}

// All answers with their replies, the votes' groups first.
std::vector<AnswerGroup> answers_of(const Agreement& votes, const Agreement& all) {
  std::vector<AnswerGroup> answers;
  for (const AnswerGroup& group : votes.groups) {
    answers.push_back(*std::ranges::find(all.groups, group.answer, &AnswerGroup::answer));
  }
  for (const AnswerGroup& group : all.groups) {
    if (std::ranges::find(answers, group.answer, &AnswerGroup::answer) == answers.end()) {
      answers.push_back(group);
    }
  }
  return answers;
}

Json guard_json(const Guarded& g, Policy policy) {
  Json answers = Json::array();
  for (const AnswerGroup& group : g.answers) {
    Json json = {{"replies", group.replies}, {"offsets", group.offsets}};
    if (&group != g.answers.data()) {
      json["disputed"] = marked(dispute(g.answers[0].answer, group.answer).second);
    }
    answers.push_back(std::move(json));
  }
  Json unsteady = Json::array();
  for (std::size_t o = 0; o < g.repeats.offsets.size(); ++o) {
    if (!g.repeats.offsets[o].steady) unsteady.push_back(o);
  }
  const bool differ = g.verdict == "disagree";
  return {{"verdict", g.verdict},
          {"policy", name_of(policy)},
          {"offsets", std::ssize(g.votes.offsets)},
          {"replies", g.asked},
          {"positions", g.positions_verified ? "verified" : "unverified"},
          {"answered_by_offset", g.answered_by ? Json(*g.answered_by) : Json()},
          {"differing_offsets", g.votes.differ},
          {"unanswered_offsets", g.votes.unanswered},
          {"unsteady_offsets", unsteady},
          {"cause", differ ? Json(name_of(g.repeats.verdict)) : Json()},
          {"p", differ && g.repeats.test.p ? Json(*g.repeats.test.p) : Json()},
          {"answers", answers},
          {"extra_prompt_tokens", g.extra_prompt_tokens},
          {"extra_completion_tokens", g.extra_completion_tokens}};
}

// The answer that is given; empty: there is none.
std::optional<std::size_t> chosen(std::span<const Reply> answers, const Guarded& g, Policy policy) {
  if (g.votes.groups.empty()) return std::nullopt;
  if (policy == Policy::kReport && answers[0].answered()) return 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].answered() && normalised(answers[i].answer) == g.votes.groups[0].answer) {
      return i;
    }
  }
  return std::nullopt;
}

void add_headers(Guarded& g) {
  const std::int64_t most = g.votes.groups.empty() ? 0 : g.votes.groups[0].replies;
  g.headers = {{"X-Kvphase-Guard", g.verdict},
               {"X-Kvphase-Guard-Replies", fmt::format("{}/{}", most, g.votes.offsets.size())},
               {"X-Kvphase-Guard-Positions", g.positions_verified ? "verified" : "unverified"}};
  if (!g.votes.differ.empty()) {
    g.headers.emplace_back("X-Kvphase-Guard-Differ",
                           fmt::format("{}", fmt::join(g.votes.differ, " ")));
  }
}

Json error_json(std::string_view message, std::string_view code) {
  constexpr std::string_view kScope = "[guard] ";
  if (message.starts_with(kScope)) message.remove_prefix(kScope.size());
  return {{"error",
           {{"message", fmt::format("{}{}", kScope, message)},
            {"type", "kvphase_guard"},
            {"param", nullptr},
            {"code", code}}}};
}

void refuse(Guarded& g, std::int64_t k, Policy policy) {
  g.outcome = Outcome::kRefused;
  g.passed_on.reset();
  g.answered_by.reset();
  g.status = 422;  // not 409 or 5xx: clients ask those again by themselves
  Json body =
      error_json(fmt::format("expected one answer at {} offsets, got {}", k,
                             g.verdict == "disagree"
                                 ? fmt::format("{}", g.answers.size())
                                 : fmt::format("none at {} of them", g.votes.unanswered.size())),
                 g.verdict);
  body["kvphase_guard"] = guard_json(g, policy);
  g.body = dump(body);
}

}  // namespace

std::string error_body(std::string_view message, std::string_view code) {
  return dump(error_json(message, code));
}

Guarded judge(std::span<const VersionReply> replies, std::int64_t k, Policy policy) {
  Guarded g{.asked = std::ssize(replies)};
  const Offsets offsets = offsets_of(replies, k);
  g.positions_verified = offsets.verified;
  std::vector<std::optional<Said>> said;
  std::vector<Reply> answers;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    said.push_back(read_reply(replies[i]));
    const bool counts = said.back().has_value() && offsets.of[i] >= 0;
    answers.push_back({.offset = std::max<std::int64_t>(0, offsets.of[i]),
                       .repeat = static_cast<std::int64_t>(i),
                       .answer = counts ? said.back()->text : "",
                       .missing = counts ? "" : "no answer",
                       .cut = counts && said.back()->cut});
  }
  const std::vector<Reply> each = spoken(replies, answers, k);
  g.repeats = find_agreement(each, {.offsets = k});
  g.votes = find_agreement(votes_of(each, g.repeats), {.offsets = k});
  g.answers = answers_of(g.votes, find_agreement(answers, {.offsets = k}));
  g.verdict = g.answers.size() > 1         ? "disagree"
              : g.votes.unanswered.empty() ? "agree"
                                           : "incomplete";
  g.passed_on = chosen(answers, g, policy);
  if (g.passed_on) g.answered_by = answers[*g.passed_on].offset;
  const bool error = replies[0].status / 100 != 2;
  if (!g.passed_on && !(policy == Policy::kRefuse && !error)) {  // the upstream's own words
    g.outcome = replies[0].status == 0 ? Outcome::kNoReply
                : error                ? Outcome::kUpstreamError
                                       : Outcome::kAnswered;
    if (replies[0].status != 0) g.passed_on = 0;
  }
  for (std::size_t i = 0; i < said.size(); ++i) {
    if (!said[i] || i == g.passed_on) continue;
    g.extra_prompt_tokens += said[i]->prompt_tokens.value_or(0);
    g.extra_completion_tokens += said[i]->completion_tokens;
  }
  add_headers(g);
  if (policy == Policy::kRefuse && g.verdict != "agree" && g.outcome == Outcome::kAnswered) {
    refuse(g, k, policy);
    return g;
  }
  g.status = g.passed_on ? replies[*g.passed_on].status : 0;
  if (!g.passed_on) return g;
  g.body = replies[*g.passed_on].body;
  if (g.outcome != Outcome::kAnswered) return g;
  Json body = parse(g.body);
  if (!body.is_object()) return g;  // a page in place of a completion
  body["kvphase_guard"] = guard_json(g, policy);
  g.body = dump(body);
  return g;
}

std::string as_events(std::string_view body, bool chat) {
  constexpr const char* kEnd = "data: [DONE]\n\n";
  const Json whole = parse(body);
  if (!whole.is_object() || !whole.contains("choices") || !whole["choices"].is_array() ||
      whole["choices"].empty() || !whole["choices"][0].is_object()) {
    Json error =
        error_json("expected a completion from the upstream, got something else", "no_completion");
    if (whole.is_object() && whole.contains("error")) error["error"] = whole["error"];
    return fmt::format("data: {}\n\n{}", dump(error), kEnd);
  }
  const Json& choice = whole["choices"][0];
  Json part = whole;
  part.erase("usage");
  part.erase("kvphase_guard");
  part["object"] = chat ? "chat.completion.chunk" : "text_completion";
  Json piece = {{"index", 0}, {"finish_reason", nullptr}};
  Json last = {{"index", 0}, {"finish_reason", choice.value("finish_reason", Json())}};
  if (chat) {  // all of the message: reasoning and the like, too
    piece["delta"] = choice.value("message", Json::object());
    last["delta"] = Json::object();
  } else {
    piece["text"] = choice.value("text", Json());
    last["text"] = "";
  }
  part["choices"] = Json::array({piece});
  std::string events = fmt::format("data: {}\n\n", dump(part));
  part["choices"] = Json::array({last});
  if (whole.contains("usage")) part["usage"] = whole["usage"];
  if (whole.contains("kvphase_guard")) part["kvphase_guard"] = whole["kvphase_guard"];
  return events + fmt::format("data: {}\n\n{}", dump(part), kEnd);
}

}  // namespace kvphase::guard
