// What a client of the flexible files layout reports (RFC 8435 sections 9 and 10; RFC 7862 sections
// 15.6 and 15.7), encoded and decoded.
//
//   ff_layoutreturn4   in LAYOUTRETURN: I/O errors and statistics
//   ff_layoutupdate4   in LAYOUTSTATS
//   device_error4<>    in LAYOUTERROR
//
// A report is a client's word: a hint to look at a copy, never a reason by itself to take a data
// server for dead. A Linux client sends at most 20 errors and 4 statistics at a time. What it says
// of addresses and handles is carried as it came.
//
// Threading: plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "layout/flex_layout.h"

namespace weft::layout {

constexpr std::size_t kMaxFlexErrors = 128;       // reports in one LAYOUTRETURN
constexpr std::size_t kMaxFlexDeviceErrors = 16;  // device errors in one report or LAYOUTERROR
constexpr std::size_t kMaxFlexStats = 64;

struct DeviceError {
  DeviceIdBytes device{};
  std::uint32_t status = 0;  // nfsstat4
  std::uint32_t op = 0;      // nfs_opnum4

  friend bool operator==(const DeviceError&, const DeviceError&) = default;
};

struct FlexIoError {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  WireStateid stateid{};
  std::vector<DeviceError> errors;

  friend bool operator==(const FlexIoError&, const FlexIoError&) = default;
};

struct FlexTime {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;  // below 1,000,000,000

  friend bool operator==(const FlexTime&, const FlexTime&) = default;
};

struct FlexLatency {
  std::uint64_t ops_requested = 0;
  std::uint64_t bytes_requested = 0;
  std::uint64_t ops_completed = 0;
  std::uint64_t bytes_completed = 0;
  std::uint64_t bytes_not_delivered = 0;
  FlexTime busy;        // with at least one request under way
  FlexTime completion;  // the sum over all requests

  friend bool operator==(const FlexLatency&, const FlexLatency&) = default;
};

struct FlexUpdate {
  std::string netid;
  std::string universal_address;
  std::vector<std::byte> handle;
  FlexLatency read;
  FlexLatency write;
  FlexTime duration;
  bool local = false;

  friend bool operator==(const FlexUpdate&, const FlexUpdate&) = default;
};

struct FlexStats {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  WireStateid stateid{};
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t write_bytes = 0;
  DeviceIdBytes device{};
  FlexUpdate update;

  friend bool operator==(const FlexStats&, const FlexStats&) = default;
};

struct FlexReturn {
  std::vector<FlexIoError> errors;
  std::vector<FlexStats> stats;

  friend bool operator==(const FlexReturn&, const FlexReturn&) = default;
};

// Preconditions: no list longer than its limit above, netids of at most 16 bytes, addresses of
// at most 128, handles of at most 128.
void encode(xdr::Encoder& out, const FlexReturn& report);

// kProtocol for malformed bytes, lists over their limits, bytes too many. An empty LAYOUTRETURN
// body (a client with nothing to say) is an empty report.
[[nodiscard]] Result<FlexReturn> decode_flex_return(std::span<const std::byte> body);
}  // namespace weft::layout
