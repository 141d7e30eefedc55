// Published claims and what our runs say to them, for a terminal, for documents and for the page of
// compared runs.
#pragma once

#include <span>
#include <string>

#include "record/claim.h"

namespace kvphase::report {

// Markdown: a table of the claims, then each one's test and parts. Empty when no run bears on any.
std::string claims_markdown(std::span<const record::Claim> claims);

// The same as a section of a page.
std::string claims_html(std::span<const record::Claim> claims);

}  // namespace kvphase::report
