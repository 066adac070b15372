// weft ds segments: how much of what is read from data servers comes from segments.
//
// Threading: values and pure functions; the command: one thread.
#pragma once

#include "ganesha-fsal/admin/segment_reports.h"
#include "tools/weft/commands.h"

namespace weft::cli {

// For people. Data servers that keep none are told of in one line.
[[nodiscard]] std::string segments_text(const mds::SegmentsReport& report);
[[nodiscard]] int ds_segments_command(const Settings& settings);

}  // namespace weft::cli
