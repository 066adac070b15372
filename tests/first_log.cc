// Makes spdlog's registry before there are threads. It is made by the first use, in a library that
// ThreadSanitizer does not see into: two threads of a test that log first, at once, would be
// reported as a race. Every test binary has this in it.
#include <spdlog/spdlog.h>

namespace {

[[maybe_unused]] const auto kRegistry = spdlog::default_logger();

}  // namespace
