#include "layout/load.h"

#include <algorithm>

namespace weft::layout {
namespace {

constexpr std::uint8_t kBusyPercent = 99;
constexpr std::uint32_t kBusyRunQueueMilli = 2000;

void put(xdr::Encoder& out, const DeviceLoad& device) {
  out.u64(device.used);
  out.u64(device.max);
  out.u32(device.streams);
}

void get(xdr::Decoder& in, DeviceLoad& device) {
  device.used = in.u64();
  device.max = in.u64();
  device.streams = in.u32();
}

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

void encode(xdr::Encoder& out, const ServerLoad& load) {
  out.opaque(std::as_bytes(std::span(load.cpu_percent)));
  out.u32(load.run_queue_milli);
  out.u64(load.memory_free);
  put(out, load.disk);
  put(out, load.network);
}

void decode(xdr::Decoder& in, ServerLoad& load) {
  load.cpu_percent.clear();
  for (const std::byte percent : in.opaque(kMaxCpus)) {
    load.cpu_percent.push_back(std::to_integer<std::uint8_t>(percent));
    if (load.cpu_percent.back() > 100) in.reject();
  }
  load.run_queue_milli = in.u32();
  load.memory_free = in.u64();
  get(in, load.disk);
  get(in, load.network);
}

}  // namespace weft::layout
