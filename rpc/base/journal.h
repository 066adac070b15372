// Lines for the journal of systemd: it has a clock of its own, and takes a line's priority from its
// beginning, "<3>" (sd-daemon(3)).
//
// Threading: any thread; goes_to_journal() while nobody changes the environment.
#pragma once

#include <spdlog/common.h>
#include <spdlog/formatter.h>

#include <memory>

namespace weft {

// Whether what is written to `fd` goes to the journal: JOURNAL_STREAM (systemd.exec(5)) names it,
// as DEVICE:INODE.
[[nodiscard]] bool goes_to_journal(int fd);

// 3 (error) to 7 (debug).
[[nodiscard]] int journal_priority(spdlog::level::level_enum level);

// Of a logger that writes to `fd`; for spdlog's set_formatter().
[[nodiscard]] std::unique_ptr<spdlog::formatter> log_formatter(int fd);

}  // namespace weft
