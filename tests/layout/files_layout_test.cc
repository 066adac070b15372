#include "layout/files_layout.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

using namespace weft;
using namespace weft::layout;

namespace {

FilesLayout layout_over(std::size_t servers) {
  FilesLayout layout;
  layout.device = pack({10, 1, 2, 3});
  layout.stripe_unit = 1 << 20;
  for (std::size_t i = 0; i < servers; ++i) {
    Handle handle;
    handle.ds_id = static_cast<std::uint32_t>(i + 1);
    layout.handles.push_back(seal(handle, HandleKey{}));
  }
  return layout;
}

std::vector<std::byte> wire_of(const auto& value) {
  xdr::Encoder out;
  REQUIRE(encode(out, value));
  return out.take();
}

}  // namespace

TEST_CASE("a files layout survives the wire, and its size is as computed") {
  for (const std::size_t servers : {1U, 2U, 4U, 58U, 256U}) {
    FilesLayout layout = layout_over(servers);
    layout.first_stripe_index = static_cast<std::uint32_t>(servers - 1);
    const auto wire = wire_of(layout);
    CHECK(wire.size() == files_layout_bytes(servers));
    CHECK(decode_files_layout(wire).value() == layout);
  }
}

TEST_CASE("the body is laid out as RFC 8881 section 13.3 says") {
  const auto wire = wire_of(layout_over(2));
  xdr::Decoder in(wire);
  DeviceIdBytes device;
  in.fixed(device);
  CHECK(device == pack({10, 1, 2, 3}));
  CHECK(in.u32() == 1 << 20);  // nfl_util: sparse, COMMIT at the data servers
  CHECK(in.u32() == 0);        // nfl_first_stripe_index
  CHECK(in.u64() == 0);        // nfl_pattern_offset
  CHECK(in.count(256) == 2);
  CHECK(in.opaque(128).size() == kHandleBytes);
  CHECK(in.opaque(128).size() == kHandleBytes);
  CHECK(in.remaining() == 0);
}

TEST_CASE("layouts a client would reject are not encoded") {
  xdr::Encoder out;
  CHECK_FALSE(encode(out, layout_over(0)));
  CHECK_FALSE(encode(out, layout_over(257)));
  FilesLayout odd = layout_over(2);
  odd.stripe_unit = 1000;
  CHECK_FALSE(encode(out, odd));
  FilesLayout off = layout_over(2);
  off.first_stripe_index = 2;
  CHECK_FALSE(encode(out, off));
  CHECK(out.size() == 0);
}

TEST_CASE("what we never send is not understood") {
  const auto wire = wire_of(layout_over(2));
  const auto with = [&](std::size_t at, std::uint8_t value) {
    auto changed = wire;
    changed[at] = std::byte{value};
    return decode_files_layout(changed);
  };
  CHECK(with(19, 1).error() == Errc::kNotSupported);  // dense
  CHECK(with(19, 2).error() == Errc::kNotSupported);  // COMMIT through the metadata server
  CHECK(with(19, 4).error() == Errc::kProtocol);      // no such flag
  CHECK(with(31, 1).error() == Errc::kNotSupported);  // pattern offset
  CHECK(with(23, 2).error() == Errc::kProtocol);      // first stripe index past the end
}

TEST_CASE("a layout cut short or longer than it says is refused") {
  auto wire = wire_of(layout_over(3));
  for (std::size_t size = 0; size < wire.size(); ++size) {
    CHECK_FALSE(decode_files_layout(std::span(wire).first(size)));
  }
  wire.resize(wire.size() + 4);
  CHECK(decode_files_layout(wire).error() == Errc::kProtocol);
}

TEST_CASE("what fits a client's LAYOUTGET is known") {
  CHECK(max_servers_within(4000) == 58);
  CHECK(files_layout_bytes(58) <= 4000);
  CHECK(files_layout_bytes(59) > 4000);
  CHECK(max_servers_within(0) == 0);
  CHECK(max_servers_within(1 << 20) == kMaxServers);
}

TEST_CASE("a device survives the wire: IPv4, IPv6, several paths") {
  const auto v4 = make_address("192.0.2.7", 2049).value();
  const auto v6 = make_address("2001:db8::7", 20490).value();
  const DeviceAddress rdma(make_address("192.0.2.7", 20049).value(), Transport::kRdma);
  const Device device{4, {{1, 1, {v4}}, {2, 1, {v6, v4}}, {3, 1, {rdma, v6}}}};
  const FilesDevice files = files_device(device);
  CHECK(files.stripe_indices == std::vector<std::uint32_t>{0, 1, 2});
  auto wire = wire_of(files);
  CHECK(decode_files_device(wire).value() == files);
  for (std::size_t size = 0; size < wire.size(); ++size) {
    CHECK_FALSE(decode_files_device(std::span(wire).first(size)));
  }
  wire.resize(wire.size() + 4);
  CHECK_FALSE(decode_files_device(wire));
}

TEST_CASE("devices over the client's limits are neither encoded nor decoded") {
  const auto v4 = make_address("192.0.2.7", 2049).value();
  xdr::Encoder out;
  FilesDevice device{std::vector<std::uint32_t>(kMaxStripes, 0), {{v4}}};
  CHECK(encode(out, device));
  device.stripe_indices.push_back(0);
  CHECK_FALSE(encode(out, device));
  CHECK_FALSE(encode(out, FilesDevice{{1}, {{v4}}}));
  CHECK_FALSE(encode(out, FilesDevice{{0}, {{}}}));
  CHECK_FALSE(encode(out, FilesDevice{{}, {{v4}}}));
  xdr::Encoder huge;
  huge.u32(UINT32_MAX);
  CHECK_FALSE(decode_files_device(huge.bytes()));
}

TEST_CASE("rubbish is refused without harm") {
  CHECK(rc::check([](const std::vector<std::uint8_t>& rubbish) {
    const auto bytes = std::as_bytes(std::span(rubbish));
    if (const auto layout = decode_files_layout(bytes)) {
      RC_ASSERT(wire_of(*layout).size() == bytes.size());
    }
    (void)decode_files_device(bytes);
  }));
}
