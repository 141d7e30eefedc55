#include "guard/guarding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"
#include "guard/dispute.h"

namespace kvphase::guard {
namespace {

using base::Json;

constexpr Policy kPolicies[] = {Policy::kReport, Policy::kMajority, Policy::kRefuse};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json() : json;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The text that stands first in the prompt, to put filler in front of; null with `why` filled.
Json* first_text(Json& body, bool chat, std::string& why) {
  if (body.contains("n") && body["n"] != 1) why = "it asks for more than one answer";
  for (const char* key : {"tools", "functions"}) {
    if (body.contains(key) && !body[key].empty()) why = "it offers tools";
  }
  if (!why.empty()) return nullptr;
  if (!chat) {
    if (body.contains("prompt") && body["prompt"].is_string()) return &body["prompt"];
    why = "its prompt is no text";
    return nullptr;
  }
  if (!body.contains("messages") || !body["messages"].is_array() || body["messages"].empty()) {
    why = "it has no messages";
    return nullptr;
  }
  for (Json& message : body["messages"]) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_string()) {
      why = "a message is no text";
      return nullptr;
    }
  }
  return &body["messages"][0]["content"];
}

// What a reply says, where it says something.
struct Said {
  std::string text;
  bool cut = false;
  std::optional<std::int64_t> prompt_tokens;
  std::int64_t completion_tokens = 0;
};

std::optional<Said> read_reply(const VersionReply& reply) {
  if (reply.status / 100 != 2) return std::nullopt;
  const Json body = parse(reply.body);
  if (!body.is_object() || !body.contains("choices") || !body["choices"].is_array() ||
      body["choices"].empty() || !body["choices"][0].is_object()) {
    return std::nullopt;
  }
  const Json& choice = body["choices"][0];
  Said said;
  if (choice.contains("text") && choice["text"].is_string()) {
    said.text = choice["text"].get<std::string>();
  } else if (choice.contains("message") && choice["message"].is_object() &&
             choice["message"].contains("content") && choice["message"]["content"].is_string()) {
    said.text = choice["message"]["content"].get<std::string>();
  } else {
    return std::nullopt;
  }
  said.cut = choice.contains("finish_reason") && choice["finish_reason"] == "length";
  if (body.contains("usage") && body["usage"].is_object()) {
    const auto count = [&](const char* key) -> std::optional<std::int64_t> {
      const Json& usage = body["usage"];
      if (!usage.contains(key) || !usage[key].is_number_integer()) return std::nullopt;
      return usage[key].get<std::int64_t>();
    };
    said.prompt_tokens = count("prompt_tokens");
    said.completion_tokens = count("completion_tokens").value_or(0);
  }
  return said;
}

// How many tokens each prompt is longer than the first; empty: a count is missing.
std::vector<std::int64_t> shifts_of(std::span<const VersionReply> replies) {
  std::vector<std::int64_t> shifts;
  std::optional<std::int64_t> first;
  for (const VersionReply& reply : replies) {
    const std::optional<Said> said = read_reply(reply);
    if (!said || !said->prompt_tokens) return {};
    if (!first) first = said->prompt_tokens;
    shifts.push_back(*said->prompt_tokens - *first);
  }
  return shifts;
}

// Of each reply: what its count says where that makes sense of all of them, else its order.
struct Offsets {
  std::vector<std::int64_t> of;
  bool verified = false;  // by counts, and each of 0..k-1 is there
};

Offsets offsets_of(std::span<const VersionReply> replies, std::int64_t k) {
  Offsets offsets{.of = shifts_of(replies)};
  const auto in_range = [k](std::int64_t shift) { return shift >= 0 && shift < k; };
  if (!offsets.of.empty() && std::ranges::all_of(offsets.of, in_range)) {
    offsets.verified = true;
    for (std::int64_t o = 0; o < k; ++o) {
      offsets.verified = offsets.verified && std::ranges::find(offsets.of, o) != offsets.of.end();
    }
  }
  if (offsets.verified) return offsets;
  offsets.of.clear();
  for (std::int64_t i = 0; i < std::ssize(replies); ++i) offsets.of.push_back(std::min(i, k - 1));
  return offsets;
}

Json guard_json(const Guarded& g, Policy policy) {
  Json answers = Json::array();
  for (const AnswerGroup& group : g.agreement.groups) {
    Json json = {{"replies", group.replies}, {"offsets", group.offsets}};
    if (&group != &g.agreement.groups[0]) {
      json["disputed"] = marked(dispute(g.agreement.groups[0].answer, group.answer).second);
    }
    answers.push_back(std::move(json));
  }
  return {{"verdict", g.verdict},
          {"policy", name_of(policy)},
          {"offsets", std::ssize(g.agreement.offsets)},
          {"positions", g.positions_verified ? "verified" : "unverified"},
          {"answered_by_offset", g.answered_by},
          {"differing_offsets", g.agreement.differ},
          {"unanswered_offsets", g.agreement.unanswered},
          {"answers", answers},
          {"extra_prompt_tokens", g.extra_prompt_tokens},
          {"extra_completion_tokens", g.extra_completion_tokens}};
}

// Which reply is given; past the end: none has an answer. Groups stand by their replies, of equals
// the one with the lowest offset first.
std::size_t chosen(const std::vector<Reply>& answers, const Agreement& a, Policy policy) {
  if (policy == Policy::kReport && answers[0].answered()) return 0;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].answered() && normalised(answers[i].answer) == a.groups[0].answer) return i;
  }
  return answers.size();
}

}  // namespace

std::string_view name_of(Policy policy) {
  switch (policy) {
    case Policy::kReport:
      return "report";
    case Policy::kMajority:
      return "majority";
    case Policy::kRefuse:
      return "refuse";
  }
  return "report";
}

Policy policy_of(std::string_view name) {
  std::vector<std::string> names;
  for (const Policy policy : kPolicies) {
    if (name == name_of(policy)) return policy;
    names.emplace_back(name_of(policy));
  }
  throw base::usage_error("guard", "expected a policy of {}, got '{}'; did you mean '{}'?",
                          fmt::join(names, ", "), name,
                          base::nearest_name(std::string(name), names));
}

Wish read_wish(std::string_view header, const GuardOptions& options) {
  Wish wish{.guarded = true, .offsets = options.offsets, .policy = options.policy};
  while (!header.empty()) {
    const std::size_t comma = std::min(header.find(','), header.size());
    const std::string_view word = trimmed(header.substr(0, comma));
    header.remove_prefix(std::min(comma + 1, header.size()));
    if (word == "on" || word.empty()) continue;
    if (word == "off") return {};
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc{} && end == word.data() + word.size()) {
      if (number < 2 || number > options.most_offsets) {
        throw base::usage_error("guard", "expected 2 to {} offsets in X-Kvphase-Guard, got {}",
                                options.most_offsets, number);
      }
      wish.offsets = number;
    } else {
      wish.policy = policy_of(word);
    }
  }
  return wish;
}

bool takes_suffix(std::string_view body, const GuardOptions& options) {
  if (options.suffix.empty() || body.find(options.suffix + "\"") == std::string_view::npos) {
    return false;
  }
  const Json json = parse(body);
  return json.is_object() && json.contains("model") && json["model"].is_string() &&
         json["model"].get<std::string>().ends_with(options.suffix);
}

Versions make_versions(std::string_view path, std::string_view body, std::int64_t offsets,
                       const GuardOptions& options) {
  Versions versions{.chat = path.ends_with("/chat/completions")};
  if (!versions.chat && !path.ends_with("/completions")) {
    versions.skipped = "only completions and chat completions can be";
    return versions;
  }
  Json json = parse(body);
  if (!json.is_object()) {
    versions.skipped = "its body is no JSON object";
    return versions;
  }
  if (json.contains("model") && json["model"].is_string()) {
    auto model = json["model"].get<std::string>();
    if (!options.suffix.empty() && model.ends_with(options.suffix)) {
      model.resize(model.size() - options.suffix.size());
      json["model"] = model;
    }
  }
  versions.stream = json.contains("stream") && json["stream"] == true;
  json.erase("stream");
  json.erase("stream_options");
  if (!json.contains("temperature")) json["temperature"] = 0;
  Json* text = first_text(json, versions.chat, versions.skipped);
  if (text == nullptr) return versions;
  const auto original = text->get<std::string>();
  std::string filler;
  for (std::int64_t version = 0; version <= offsets; ++version) {
    if (version > 0) {
      *text = fmt::format("{}\n{}", filler, original);
      filler += fmt::format(" {}", options.filler);
    }
    versions.bodies.push_back(dump(json));
  }
  return versions;
}

bool line_break_is_free(std::span<const VersionReply> replies) {
  const std::vector<std::int64_t> shifts = shifts_of(replies);
  for (std::size_t v = 0; v < shifts.size(); ++v) {
    if (shifts[v] != std::max<std::int64_t>(0, static_cast<std::int64_t>(v) - 1)) return false;
  }
  return shifts.size() > 1;
}

Guarded judge(std::span<const VersionReply> replies, std::int64_t k, Policy policy) {
  Guarded g;
  const Offsets offsets = offsets_of(replies, k);
  std::vector<std::optional<Said>> said;
  std::vector<Reply> answers;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    said.push_back(read_reply(replies[i]));
    answers.push_back({.offset = offsets.of[i],
                       .repeat = static_cast<std::int64_t>(i),
                       .answer = said.back() ? said.back()->text : "",
                       .missing = said.back() ? "" : "no answer",
                       .cut = said.back() && said.back()->cut});
  }
  g.agreement = find_agreement(answers, {.offsets = k});
  const Agreement& a = g.agreement;
  g.verdict = a.groups.size() > 1 ? "disagree" : a.unanswered.empty() ? "agree" : "incomplete";
  g.positions_verified = offsets.verified;
  const std::size_t given_by = chosen(answers, a, policy);
  g.answered_by = given_by < answers.size() ? answers[given_by].offset : -1;
  g.refused = policy == Policy::kRefuse && g.verdict != "agree";
  for (std::size_t o = 0; o < said.size(); ++o) {
    if (!said[o] || o == given_by) continue;
    g.extra_prompt_tokens += said[o]->prompt_tokens.value_or(0);
    g.extra_completion_tokens += said[o]->completion_tokens;
  }
  const std::int64_t most = a.groups.empty() ? 0 : a.groups[0].replies;
  g.headers = {{"X-Kvphase-Guard", g.verdict},
               {"X-Kvphase-Guard-Replies", fmt::format("{}/{}", most, replies.size())},
               {"X-Kvphase-Guard-Positions", g.positions_verified ? "verified" : "unverified"}};
  if (!a.differ.empty()) {
    g.headers.emplace_back("X-Kvphase-Guard-Differ", fmt::format("{}", fmt::join(a.differ, " ")));
  }
  if (g.answered_by < 0) {  // nothing to judge: the upstream's own words to the prompt as it came
    g.refused = false;
    g.status = replies[0].status == 0 ? 502 : replies[0].status;
    g.body = replies[0].body;
    return g;
  }
  if (g.refused) {
    g.status = 422;  // not 409 or 5xx: clients ask those again by themselves
    g.body =
        dump({{"error",
               {{"message",
                 fmt::format("[guard] expected one answer at {} offsets, got {}", replies.size(),
                             g.verdict == "disagree" ? fmt::format("{}", a.groups.size())
                                                     : "too few replies")},
                {"type", "kvphase_guard"},
                {"param", nullptr},
                {"code", g.verdict}}},
              {"kvphase_guard", guard_json(g, policy)}});
    return g;
  }
  const VersionReply& given = replies[given_by];
  g.status = given.status;
  Json body = parse(given.body);
  body["kvphase_guard"] = guard_json(g, policy);
  g.body = dump(body);
  return g;
}

std::string as_events(std::string_view body, bool chat) {
  Json whole = parse(body);
  Json choice = whole["choices"][0];
  Json part = whole;
  part.erase("usage");
  part.erase("kvphase_guard");
  part["object"] = chat ? "chat.completion.chunk" : "text_completion";
  Json piece = {{"index", 0}, {"finish_reason", nullptr}};
  if (chat) {
    piece["delta"] = {{"role", "assistant"}, {"content", choice["message"]["content"]}};
  } else {
    piece["text"] = choice["text"];
  }
  part["choices"] = Json::array({piece});
  std::string events = fmt::format("data: {}\n\n", dump(part));
  Json last = {{"index", 0}, {"finish_reason", choice["finish_reason"]}};
  if (chat) {
    last["delta"] = Json::object();
  } else {
    last["text"] = "";
  }
  part["choices"] = Json::array({last});
  if (whole.contains("usage")) part["usage"] = whole["usage"];
  part["kvphase_guard"] = whole["kvphase_guard"];
  return events + fmt::format("data: {}\n\ndata: [DONE]\n\n", dump(part));
}

}  // namespace kvphase::guard
