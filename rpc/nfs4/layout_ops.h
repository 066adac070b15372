// The pNFS operations of a metadata server, client side and for tests both ways: LAYOUTGET,
// LAYOUTRETURN, LAYOUTCOMMIT, GETDEVICEINFO (RFC 8881 sections 18.40 to 18.44).
//
// Layout bodies and device addresses are opaque here; layout/ reads and writes them. LAYOUTRETURN
// is spoken for a file, not for a file system or everything.
//
// Threading: values.
#pragma once

#include <optional>
#include <vector>

#include "rpc/nfs4/codec.h"

namespace weft::rpc::nfs4 {

struct LayoutGetArgs {
  bool signal_available = false;
  LayoutType type = LayoutType::LAYOUT4_NFSV4_1_FILES;
  IoMode iomode = IoMode::LAYOUTIOMODE4_READ;
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;
  std::uint64_t min_length = 0;
  Stateid stateid;
  std::uint32_t max_count = 0;  // bytes of the reply's layouts
  friend bool operator==(const LayoutGetArgs&, const LayoutGetArgs&) = default;
};

struct LayoutSegment {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  IoMode iomode = IoMode::LAYOUTIOMODE4_READ;
  std::uint32_t type = 0;
  std::vector<std::byte> body;
  friend bool operator==(const LayoutSegment&, const LayoutSegment&) = default;
};

struct LayoutGetOk {
  bool return_on_close = false;
  Stateid stateid;
  std::vector<LayoutSegment> segments;
  friend bool operator==(const LayoutGetOk&, const LayoutGetOk&) = default;
};

struct LayoutReturnArgs {
  bool reclaim = false;
  LayoutType type = LayoutType::LAYOUT4_NFSV4_1_FILES;
  IoMode iomode = IoMode::ANY;
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;
  Stateid stateid;
  std::vector<std::byte> body;
  friend bool operator==(const LayoutReturnArgs&, const LayoutReturnArgs&) = default;
};

struct LayoutReturnOk {
  std::optional<Stateid> stateid;  // absent: nothing of the layout is left
  friend bool operator==(const LayoutReturnOk&, const LayoutReturnOk&) = default;
};

struct LayoutCommitArgs {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool reclaim = false;
  Stateid stateid;
  std::optional<std::uint64_t> last_write_offset;
  std::optional<Time> time_modify;
  std::uint32_t type = 1;
  std::vector<std::byte> body;
  friend bool operator==(const LayoutCommitArgs&, const LayoutCommitArgs&) = default;
};

struct LayoutCommitOk {
  std::optional<std::uint64_t> new_size;
  friend bool operator==(const LayoutCommitOk&, const LayoutCommitOk&) = default;
};

struct GetDeviceInfoArgs {
  DeviceId device{};
  LayoutType type = LayoutType::LAYOUT4_NFSV4_1_FILES;
  std::uint32_t max_count = 0;
  std::uint32_t notify = 0;  // the first word of the notification bitmap
  friend bool operator==(const GetDeviceInfoArgs&, const GetDeviceInfoArgs&) = default;
};

struct GetDeviceInfoOk {
  std::uint32_t type = 0;
  std::vector<std::byte> address;  // da_addr_body
  std::uint32_t notify = 0;
  friend bool operator==(const GetDeviceInfoOk&, const GetDeviceInfoOk&) = default;
};

void encode(xdr::Encoder& out, const LayoutGetArgs& args);
void decode(xdr::Decoder& in, LayoutGetArgs& args);
void encode(xdr::Encoder& out, const LayoutGetOk& ok);
void decode(xdr::Decoder& in, LayoutGetOk& ok);
void encode(xdr::Encoder& out, const LayoutReturnArgs& args);
void decode(xdr::Decoder& in, LayoutReturnArgs& args);
void encode(xdr::Encoder& out, const LayoutReturnOk& ok);
void decode(xdr::Decoder& in, LayoutReturnOk& ok);
void encode(xdr::Encoder& out, const LayoutCommitArgs& args);
void decode(xdr::Decoder& in, LayoutCommitArgs& args);
void encode(xdr::Encoder& out, const LayoutCommitOk& ok);
void decode(xdr::Decoder& in, LayoutCommitOk& ok);
void encode(xdr::Encoder& out, const GetDeviceInfoArgs& args);
void decode(xdr::Decoder& in, GetDeviceInfoArgs& args);
void encode(xdr::Encoder& out, const GetDeviceInfoOk& ok);
void decode(xdr::Decoder& in, GetDeviceInfoOk& ok);

}  // namespace weft::rpc::nfs4
