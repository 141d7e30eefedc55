#include "cli/command.h"

#include <array>

namespace kvphase::cli {
namespace {

constexpr std::array kCommands = {
    Command{"analyze", "A verdict and a report from results you already have", add_analyze},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace kvphase::cli
