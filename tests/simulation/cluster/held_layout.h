// A layout as a client holds it, of either type: at which data servers a block is written and read.
//
// Threading: plain values.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "layout/device_table.h"
#include "layout/handle.h"
#include "layout/layout_map.h"
#include "rpc/base/error.h"

namespace weft::sim {

class HeldLayout {
 public:
  struct Place {
    std::string server;  // its address, without the port
    layout::SealedHandle handle{};
    layout::DeviceIdBytes device{};
  };
  // GETDEVICEINFO: the device's body.
  using DeviceBody = std::function<Result<std::vector<std::byte>>(const layout::DeviceIdBytes&)>;

  // Of LAYOUTGET's body. The error is of a device.
  [[nodiscard]] static Result<HeldLayout> make(layout::LayoutType type,
                                               std::span<const std::byte> body,
                                               const DeviceBody& device);

  // Every place that must take what is written of the block. It is read at the first of them, or
  // at the next when that fails.
  [[nodiscard]] std::vector<Place> places(std::size_t block) const;

 private:
  std::size_t blocks_each_ = 1;                // of a stripe unit
  std::vector<std::vector<Place>> mirrors_{};  // each in stripe order, those to read from first
};

}  // namespace weft::sim
