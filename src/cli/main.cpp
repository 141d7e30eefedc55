// The program: parses, runs one subcommand, and is the only place that turns errors into exit
// codes. It links no torch (see lab_api.h).
#include <fmt/format.h>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/build_info.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/signal_stack.h"
#include "base/stop.h"
#include "cli/command.h"

namespace kvphase::cli {
namespace {

void on_interrupt(int) { base::request_stop(); }

void leave(int) {
  constexpr std::string_view kText = "\nkvphase: interrupted, nothing is kept\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(kInterrupted);
}

// The first Ctrl-C asks the running loop to stop cleanly, a second one kills. A command with
// nothing to keep ends at the first.
void install_interrupt_handler(bool keeps_work) {
  base::use_signal_stack();
  struct sigaction action = {};
  action.sa_handler = keeps_work ? on_interrupt : leave;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

std::string one_line(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string result = "'";
  for (const char c : word) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::string quoted_command_line(int count, char** words) {
  std::string line = "kvphase";
  for (int i = 1; i < count; ++i) line += " " + quoted(words[i]);
  return line;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// CLI11 says only that a word was not expected; this says which one was probably meant.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining(true);
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string scope = chosen.empty() ? "kvphase" : chosen.front()->get_name();
  if (left.empty() && chosen.empty() && error.get_name() == "RequiredError") {
    return "[kvphase] expected a command, got none; see kvphase --help";
  }
  if (left.empty()) return fmt::format("[{}] {}; see --help", scope, one_line(error.what()));
  std::vector<std::string> names;
  if (left.front().starts_with("-")) {
    names = option_names(app);
    for (const CLI::App* sub : chosen) {
      const std::vector<std::string> more = option_names(*sub);
      names.insert(names.end(), more.begin(), more.end());
    }
  } else if (chosen.empty()) {
    for (const Command& command : commands()) names.emplace_back(command.name);
  } else {
    return fmt::format("[{}] expected no further argument, got '{}'; see kvphase {} --help",
                       chosen.front()->get_name(), left.front(), chosen.front()->get_name());
  }
  const std::string word = left.front().substr(0, left.front().find('='));
  return fmt::format("[{}] expected a known {}, got '{}'; did you mean '{}'?", scope,
                     word.starts_with("-") ? "option" : "command", word,
                     base::nearest_name(word, names));
}

bool keeps_work(std::string_view command) {
  const auto found = std::ranges::find(commands(), command, &Command::name);
  return found == commands().end() || found->keeps_work;
}

std::optional<ColorChoice> color_choice(std::string_view text) {
  if (text == "auto") return ColorChoice::kAuto;
  if (text == "always") return ColorChoice::kAlways;
  if (text == "never") return ColorChoice::kNever;
  return std::nullopt;
}

int run(int count, char** words) {
  CLI::App app{"Finds the phases at which a language model with chunked KV compression is weak."};
  app.name("kvphase");
  app.set_version_flag("--version", fmt::format("kvphase {} ({}, {})", base::build_version(),
                                                base::build_commit(), base::build_description()));
  app.footer("\n" + exit_code_help());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app.fallthrough();
  std::string color = "auto";
  bool quiet = false;
  app.add_option("--color", color, "auto | always | never; NO_COLOR in the environment is heeded")
      ->type_name("WHEN");
  app.add_flag("-q,--quiet", quiet, "No progress on stderr");
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command& command : commands()) {
    CLI::App* options = app.add_subcommand(command.name, command.summary);
    options->fallthrough();
    actions.emplace_back(options, command.add(*options));
  }
  try {
    app.parse(count, words);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    Console(ColorChoice::kAuto, quiet).error(explain(app, error));
    return kUsage;
  }
  const std::optional<ColorChoice> choice = color_choice(color);
  const Console console(choice.value_or(ColorChoice::kAuto), quiet);
  const auto report = [&](const char* what) { console.error(one_line(what)); };
  try {
    if (!choice) {
      throw base::usage_error("kvphase", "expected --color auto, always or never, got '{}'", color);
    }
    const auto chosen = std::find_if(actions.begin(), actions.end(),
                                     [](const auto& a) { return a.first->parsed(); });
    if (!keeps_work(chosen->first->get_name())) install_interrupt_handler(false);
    const ExitCode code = chosen->second({console, quoted_command_line(count, words)});
    console.finish();
    return code;
  } catch (const base::Error& error) {
    report(error.what());
    return exit_code_of(error.kind());
  } catch (const std::bad_alloc&) {
    report("[memory] expected enough memory for this input, got none left");
    return kEnvironment;
  } catch (const std::exception& error) {
    report(fmt::format("[internal] unexpected: {}", error.what()).c_str());
    return kEnvironment;
  }
}

}  // namespace
}  // namespace kvphase::cli

int main(int count, char** words) {
  kvphase::cli::install_interrupt_handler(true);
  // Past a file-size limit (ulimit -f) a write is to fail as on a full disk, with its message.
  std::signal(SIGXFSZ, SIG_IGN);
  return kvphase::cli::run(count, words);
}
