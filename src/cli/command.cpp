#include "cli/command.h"

#include <array>

namespace kvphase::cli {
namespace {

constexpr std::array kCommands = {
    Command{"demo", "Train three small models, audit each by phase, show the effect", add_demo},
    Command{"train", "Train a model from a recipe", add_train},
    Command{"family", "Train and audit the paper's designs, cell by cell", add_family},
    Command{"tokens", "Make token shards from text, for training on text", add_tokens, false},
    Command{"audit", "Find a model's periodic weak spots", add_audit},
    Command{"compare", "Servers on the same prompts, or finished audits side by side", add_compare},
    Command{"retest", "One prompt of yours at several offsets: does its answer stay?", add_retest},
    Command{"guard", "A proxy that retests what asks for it, in front of a server", add_guard},
    Command{"knockout", "Which heads the answers at each phase depend on", add_knockout},
    Command{"gates", "Which offsets of a window a checkpoint's compressors keep", add_gates},
    Command{"cycle", "Whether the weak phases move when the gates are rotated", add_cycle},
    Command{"readout", "Where attention goes by phase, and what wrong answers are due to",
            add_readout},
    Command{"analyze", "A verdict and a report from results you already have", add_analyze, false},
    Command{"calibrate", "Measure false alarms, coverage and power of the statistics",
            add_calibrate, false},
    Command{"plan", "How many items, prompts and tokens an audit needs", add_plan, false},
    Command{"theory", "The idealised model: which positions heads learn to keep, and why",
            add_theory},
    Command{"bench", "Time and memory of designs over context length, beside the machine's floors",
            add_bench},
    Command{"presets", "The named model designs, their sizes and cache costs", add_presets},
    Command{"export", "A full-attention checkpoint as GGUF or as a Hugging Face folder",
            add_export},
    Command{"serve", "A trained checkpoint behind an OpenAI-compatible API", add_serve},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace kvphase::cli
