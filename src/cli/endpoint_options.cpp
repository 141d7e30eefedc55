#include "cli/endpoint_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace kvphase::cli {
namespace {

using endpoint::PromptForm;

constexpr std::int64_t kMany = 1'000'000'000;

std::string api_names() {
  std::vector<std::string_view> names;
  for (const auto& kind : endpoint::server_kinds()) names.push_back(kind.name);
  return fmt::format("{}", fmt::join(names, " | "));
}

}  // namespace

std::vector<const CLI::Option*> declare_endpoint_options(CLI::App& app, EndpointChoices& c) {
  std::vector<const CLI::Option*> all;
  const char* group = "A server's address in place of a checkpoint";
  const auto add = [&](CLI::Option* option) {
    option->group(group);
    all.push_back(option);
    return option;
  };
  add(app.add_option("--api", c.api, "Kind of server (default: found by asking): " + api_names()))
      ->type_name("KIND");
  add(app.add_option("--model", c.model, "Which of its models (default: its first)"));
  add(app.add_option("--api-key-env", c.api_key_env,
                     "Environment variable with the key (default OPENAI_API_KEY); never the key"))
      ->type_name("NAME");
  add(app.add_option("--env-file", c.env_file, "File of NAME=value lines for it (default .env)"));
  add(app.add_option("--form", c.form,
                     "tokens | text | chat: how prompts are sent (default: the first that works)"))
      ->check(CLI::IsMember({"tokens", "text", "chat"}).description(""));
  add(app.add_option("--context", c.context, "Context length to ask of Ollama (num_ctx)"))
      ->check(CLI::Range(std::int64_t{1}, kMany).description(""));
  add(app.add_option("--extra", c.extra, "JSON object added to every request's body"))
      ->type_name("JSON");
  add(app.add_option("--concurrency", c.concurrency, "Most requests at once (default 4)"))
      ->check(CLI::Range(1, 4096).description(""));
  add(app.add_option("--timeout", c.timeout,
                     "Seconds for one request (default: 900 to its first byte)"))
      ->check(CLI::PositiveNumber);
  add(app.add_option("--tries", c.tries, "Most attempts per request (default 7)"))
      ->check(CLI::Range(1, 100).description(""));
  add(app.add_option("--top-logprobs", c.top_logprobs,
                     "Likeliest tokens to ask for (default 20); -1: all"))
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1'000'000}).description(""));
  CLI::Option* cold = add(app.add_flag("--cold", c.cold, "Keep out of the server's prompt cache"));
  add(app.add_flag("--warm", c.warm, "Use it (default where prompts share their beginning)"))
      ->excludes(cold);
  add(app.add_flag("--stream", c.stream, "Stream replies: for gateways that close quiet ones"));
  add(app.add_option("--answer-tokens", c.answer_tokens,
                     "Room for an answer (default: as the task needs)"))
      ->check(CLI::Range(std::int64_t{1}, kMany).description(""));
  add(app.add_flag("--reasoning", c.reasoning, "Let the model think first; needs --answer-tokens"));
  add(app.add_flag("--dry-run", c.dry_run, "Print what it would cost, ask only free questions"));
  const auto price = [&](const char* name, double& value, const char* help) {
    add(app.add_option(name, value, help))
        ->check(CLI::NonNegativeNumber)
        ->each([&c](const std::string&) { c.priced = true; });
  };
  price("--price-in", c.prices.in, "Money per million prompt tokens");
  price("--price-cached", c.prices.cached, "The same for tokens from the cache");
  price("--price-out", c.prices.out, "Money per million generated tokens");
  add(app.add_option("--max-requests", c.caps.requests, "Cap of this session, retries included"))
      ->check(CLI::Range(std::int64_t{0}, kMany).description(""));
  add(app.add_option("--max-tokens", c.caps.tokens, "Likewise, of prompts and answers"))
      ->check(CLI::Range(std::int64_t{0}, kMany * 1000).description(""));
  add(app.add_option("--max-cost", c.caps.cost, "Likewise, by the prices"))
      ->check(CLI::NonNegativeNumber);
  add(app.add_flag("--retry-errors", c.retry_errors,
                   "With --resume: ask prompts again that got no reply"));
  add(app.add_option("--max-missing", c.max_missing,
                     "Share of missing replies above which the exit code is 4 (default 0.1)"))
      ->check(CLI::Range(0.0, 1.0).description(""));
  return all;
}

endpoint::ClientOptions client_options(const EndpointChoices& c, std::uint64_t seed) {
  endpoint::ClientOptions options;
  if (!c.api.empty()) options.api = endpoint::server_kind_of(c.api);
  options.model = c.model;
  options.api_key_env = c.api_key_env;
  options.env_file = c.env_file;
  options.context_length = c.context;
  options.concurrency = c.concurrency;
  options.retry.attempts = c.tries;
  options.reasoning_off = !c.reasoning;
  options.seed = seed;
  if (c.timeout) {
    options.http.timeouts.first_byte = *c.timeout;
    options.http.timeouts.idle = std::min(options.http.timeouts.idle, *c.timeout);
    options.http.timeouts.total = *c.timeout;
  }
  if (!c.extra.empty()) {
    options.extra = base::parse_json(c.extra, "--extra");
    if (!options.extra.is_object()) {
      throw base::usage_error("audit", "expected a JSON object with --extra, got {}",
                              options.extra.type_name());
    }
  }
  if (c.reasoning && c.answer_tokens == 0) {
    throw base::usage_error("audit",
                            "expected --answer-tokens with --reasoning, got none: thinking takes "
                            "more room than the task's answer");
  }
  if (c.caps.cost && !c.priced) {
    throw base::usage_error("audit", "expected --price-in and --price-out with --max-cost, got {}",
                            "none");
  }
  options.spending = std::make_shared<endpoint::Spending>(c.caps, c.prices);
  return options;
}

std::string_view name_of(PromptForm form) {
  switch (form) {
    case PromptForm::kTokens:
      return "tokens";
    case PromptForm::kText:
      return "text";
    case PromptForm::kChat:
      return "chat";
  }
  return "";
}

std::vector<PromptForm> prompt_forms(const EndpointChoices& choices, const endpoint::Client& client,
                                     bool in_ids) {
  const endpoint::Capabilities can = client.api().capabilities();
  std::vector<PromptForm> forms;
  if (can.token_prompts && (in_ids || can.tokenizer)) forms.push_back(PromptForm::kTokens);
  if (!in_ids && can.text_prompts) forms.push_back(PromptForm::kText);
  if (!in_ids && can.chat) forms.push_back(PromptForm::kChat);
  const auto server = endpoint::name_of(client.info().kind);
  if (!choices.form.empty()) {
    std::erase_if(forms, [&](PromptForm form) { return name_of(form) != choices.form; });
    if (forms.empty()) {
      throw base::usage_error("audit", "expected a --form that {} has{}, got {}", server,
                              in_ids ? " and this task can use (tokens)" : "", choices.form);
    }
  }
  if (forms.empty()) {
    throw base::usage_error("audit",
                            "expected a server that takes token-id prompts (kvphase serve, vLLM, "
                            "SGLang, llama.cpp) for this task, got {}",
                            server);
  }
  return forms;
}

}  // namespace kvphase::cli
