#include "ganesha-fsal/glue/log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "ganesha-fsal/glue/ganesha.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/start_check.h"

namespace weft::mds {
namespace {

log_levels_t to_ganesha_level(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical: return NIV_CRIT;
    case spdlog::level::err: return NIV_MAJ;
    case spdlog::level::warn: return NIV_WARN;
    case spdlog::level::info:
      return NIV_EVENT;  // Ganesha's default level shows events and leaves its "info" out
    case spdlog::level::debug: return NIV_DEBUG;
    default: return NIV_FULL_DEBUG;
  }
}

// Without a mutex: it has no state, and Ganesha's log may be called from any thread.
class GaneshaSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const log_levels_t level = to_ganesha_level(message.level);
    if (component_log_level[COMPONENT_FSAL] < level) return;
    DisplayLogComponentLevel(COMPONENT_FSAL, __FILE__, __LINE__, "weft", level, "%.*s",
                             static_cast<int>(message.payload.size()), message.payload.data());
  }
  void flush_() override {}
};

class EventSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level < spdlog::level::info) return;
    log_events().note(message.level >= spdlog::level::err    ? EventLevel::kError
                      : message.level == spdlog::level::warn ? EventLevel::kWarning
                                                             : EventLevel::kNote,
                      {message.payload.data(), message.payload.size()});
  }
  void flush_() override {}
};

constexpr char kFatal[] = "WEFT_FATAL";

// Ganesha's log calls it with a line that is its last, after others have written it.
int end_of_serving(log_header_t, void*, log_levels_t level, display_buffer*, char*, char*) {
  if (level == NIV_FATAL && !starting()) ::_exit(kExitFailed);
  return 0;
}

}  // namespace

Events& log_events() {
  static Events& instance = *new Events(system_clock());
  return instance;
}

void log_to_ganesha() {
  const spdlog::sinks_init_list sinks = {std::make_shared<GaneshaSink>(),
                                         std::make_shared<EventSink>()};
  auto logger = std::make_shared<spdlog::logger>("weft", sinks);
  logger->set_level(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  if (create_log_facility(kFatal, &end_of_serving, NIV_FATAL, LH_NONE, nullptr) == 0) {
    static_cast<void>(enable_log_facility(kFatal));
  }
}

void leave_ganeshas_log() { release_log_facility(kFatal); }

void log_escaped_exception(const char* where) noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    LogCrit(COMPONENT_FSAL, "weft: exception in %s: %s", where, error.what());
  } catch (...) {
    LogCrit(COMPONENT_FSAL, "weft: unknown exception in %s", where);
  }
}

}  // namespace weft::mds
