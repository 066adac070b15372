#include "layout/load.h"

#include <algorithm>

namespace weft::layout {
namespace {

constexpr std::uint8_t kBusyPercent = 99;
constexpr std::uint32_t kBusyRunQueueMilli = 2000;

}  // namespace

double available(const DeviceLoad& device) {
  if (device.used >= device.max) return 0;
  const double left = static_cast<double>(device.max - device.used);
  return std::min(left, static_cast<double>(device.max) / (double{1} + device.streams));
}

bool cpu_is_busy(const ServerLoad& load) {
  return !load.cpu_percent.empty() && load.run_queue_milli > kBusyRunQueueMilli &&
         std::ranges::min(load.cpu_percent) >= kBusyPercent;
}

}  // namespace weft::layout
