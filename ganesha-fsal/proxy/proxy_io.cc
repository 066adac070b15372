#include "ganesha-fsal/proxy/proxy_io.h"

#include "ganesha-fsal/proxy/proxy_internal.h"
#include "rpc/base/clock.h"
#include "rpc/control/mds_boot.h"
#include "rpc/peer/keys.h"

namespace weft::mds {

using rpc::nfs4::Op;
using rpc::nfs4::OpArgs;

namespace {

constexpr std::uint32_t kMaxTransfer = 1U << 20;  // bytes of one READ or WRITE

std::function<bool(std::uint32_t)> by_registry(const Registry& registry) {
  return [&registry](std::uint32_t ds_id) { return registry.reach(ds_id) == Reach::kGone; };
}

}  // namespace

OpArgs put_handle(const layout::SealedHandle& handle) {
  return {Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(handle)}};
}

Result<std::vector<layout::Extent>> proxy_parts(const layout::Striping& striping,
                                                std::uint64_t offset, std::uint64_t length) {
  std::vector<layout::Extent> parts;
  auto split = striping.split(offset, length, [&](layout::Extent extent) {
    while (extent.length > kMaxTransfer) {
      parts.push_back({extent.server, extent.offset, kMaxTransfer});
      extent.offset += kMaxTransfer;
      extent.length -= kMaxTransfer;
    }
    parts.push_back(extent);
  });
  if (!split) return pass(split);
  return parts;
}

ProxyIo::Impl::Impl(Config config, Registry& registry, BufferPool& pool)
    : config_(std::move(config)),
      pool_(pool),
      sessions_(std::make_shared<ServerSessions>(
          config_.owner, config_.keys, registry, pool,
          config_.is_gone ? config_.is_gone : by_registry(registry), config_.rdma, config_.clock,
          config_.random)),
      verifier_(config_.random.u64()),
      admission_({.calls = config_.max_calls,
                  .server_bytes = pool.limit_bytes() / 2,
                  .bytes = pool.limit_bytes()}) {
  sessions_->start();
}

layout::Handle ProxyIo::Impl::own_claim(const File& file) const {
  layout::Handle claim;
  claim.access = layout::Access::kControl;
  claim.key_id = rpc::peer::kHandleKeyId;
  claim.object = file.object;
  claim.object_epoch = file.map.object_epoch;
  claim.client_id = control::kOwnClientId;
  claim.client_epoch = config_.boot_epoch;
  return claim;
}

layout::SealedHandle ProxyIo::Impl::seal_for(std::uint32_t ds_id, layout::Handle claim) const {
  claim.ds_id = ds_id;
  return layout::seal(claim, config_.keys->sealing());
}

ProxyIo::ProxyIo(Config config, Registry& registry, BufferPool& pool)
    : impl_(std::make_shared<Impl>(std::move(config), registry, pool)) {}
ProxyIo::~ProxyIo() { stop(); }
void ProxyIo::stop() { impl_->stop(); }
bool ProxyIo::unsettled(const layout::ObjectId& object, const layout::LayoutMap& map) const {
  return impl_->unsettled(object, map);
}
bool ProxyIo::unsettled(const layout::ObjectId& object, std::uint32_t ds_id) const {
  return impl_->unsettled(object, ds_id);
}

std::uint64_t ProxyIo::verifier() const { return impl_->verifier(); }

void ProxyIo::read(const File& file, std::uint64_t size, std::uint64_t offset, std::uint32_t count,
                   Done<ReadResult> done) {
  impl_->read(file, size, offset, count, std::move(done));
}

void ProxyIo::write(const File& file, std::uint64_t offset, Pieces data, Stability wanted,
                    Finished<WriteResult> done) {
  impl_->write(file, offset, data, wanted, std::move(done));
}

void ProxyIo::commit(const File& file, Finished<std::uint64_t> done) {
  impl_->commit(file, std::move(done));
}

ProxyIo::Route ProxyIo::route(std::uint32_t ds_id) const {
  const ServerSessions::Route route = impl_->route(ds_id);
  return {.transport = std::string(rpc::to_string(route.transport)),
          .shared_bytes = route.shared_bytes};
}

}  // namespace weft::mds
