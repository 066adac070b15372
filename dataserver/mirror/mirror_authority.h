// Who knows the partners and keeps what they missed: the metadata server, seen from a data server.
//
// Threading: called on I/O threads; completions come on any.
#pragma once

#include <chrono>
#include <functional>

#include "rpc/control/messages.h"

namespace weft::ds {

class MirrorAuthority {
 public:
  template <class T>
  using Done = rpc::control::Done<T>;

  MirrorAuthority() = default;
  MirrorAuthority(const MirrorAuthority&) = delete;
  MirrorAuthority& operator=(const MirrorAuthority&) = delete;
  virtual ~MirrorAuthority() = default;

  virtual void locate(std::uint32_t ds_id, std::chrono::milliseconds timeout,
                      Done<rpc::control::Located> done) = 0;
  // Success: durable. A write may then be acknowledged without that copy.
  virtual void copy_missed(const rpc::control::CopyMissed& missed, Done<void> done) = 0;
};

// For a data server without a metadata server: there are no partners.
class NoPartners final : public MirrorAuthority {
 public:
  void locate(std::uint32_t /*ds_id*/, std::chrono::milliseconds /*timeout*/,
              Done<rpc::control::Located> done) override {
    done(fail(Errc::kNotSupported, "no metadata server"));
  }
  void copy_missed(const rpc::control::CopyMissed& /*missed*/, Done<void> done) override {
    done(fail(Errc::kNotSupported, "no metadata server"));
  }
};

}  // namespace weft::ds
