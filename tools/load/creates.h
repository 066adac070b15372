// Creates per second: OPEN(create) and CLOSE of new, empty files, so many at once.
//
// Threading: blocks the main thread; the calls run on the engine's I/O thread.
#pragma once

#include "tools/load/workload.h"

namespace weft::load {

// Makes (and afterwards removes) files `prefix`N until `duration` is over. operations counts the
// files made; the removal is not timed.
[[nodiscard]] Result<Outcome> run_creates(Engine& engine, Mount& mount, const std::string& prefix,
                                          unsigned depth, std::chrono::milliseconds duration);

}  // namespace weft::load
