#include "cli/command.h"

#include <array>

namespace kvphase::cli {
namespace {

constexpr std::array kCommands = {
    Command{"analyze", "A verdict and a report from results you already have", add_analyze},
    Command{"serve", "A trained checkpoint behind an OpenAI-compatible API", add_serve},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace kvphase::cli
