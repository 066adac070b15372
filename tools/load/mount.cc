#include "tools/load/mount.h"

#include <sstream>

namespace weft::load {

namespace nfs4 = rpc::nfs4;
using nfs4::Op;

namespace {

constexpr std::uint32_t kLayoutBytes = 4096;  // what a Linux client offers for a LAYOUTGET reply
constexpr std::uint32_t kDeviceBytes = 64 << 10;
constexpr std::uint32_t kFileMode = 0644;

std::vector<std::string> components(const std::string& path) {
  std::vector<std::string> out;
  std::istringstream in(path);
  for (std::string part; std::getline(in, part, '/');) {
    if (!part.empty()) out.push_back(part);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Mount>> Mount::connect(Engine& engine, const MountSettings& settings) {
  std::unique_ptr<Mount> mount(new Mount(engine, settings));
  SessionSettings session = settings.session;
  session.exchange_flags = settings.pnfs ? nfs4::EXCHGID4_FLAG_USE_PNFS_MDS : 0;
  auto mds = engine.connect(settings.address, settings.port, session);
  if (!mds) return pass(mds);
  mount->mds_ = std::move(*mds);
  if (auto found = mount->find_root(); !found) return pass(found);
  return mount;
}

Mount::~Mount() {
  for (auto& [address, session] : data_servers_) engine_.disconnect(std::move(session));
  if (mds_) engine_.disconnect(std::move(mds_));
}

Result<> Mount::find_root() {
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTROOTFH, nfs4::None{}});
    for (const std::string& name : components(settings_.path)) {
      list.push_back({Op::OP_LOOKUP, nfs4::LookupArgs{name}});
    }
    list.push_back({Op::OP_GETFH, nfs4::None{}});
    return list;
  };
  const std::size_t last = components(settings_.path).size() + 1;
  auto result = Engine::call(*mds_, ops);
  if (!result) {
    return fail(result.error().code, "export " + settings_.path + ": " + result.error().text);
  }
  auto* handle = result->get<nfs4::GetFhOk>(last);
  if (handle == nullptr) return fail(Errc::kProtocol, "no file handle in the answer");
  root_ = handle->handle;
  return {};
}

Result<File> Mount::open(const std::string& name, bool create) {
  nfs4::OpenArgs args;
  args.share_access = nfs4::OPEN4_SHARE_ACCESS_BOTH | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  const auto owner = std::as_bytes(std::span(name));
  args.owner.assign(owner.begin(), owner.end());
  args.name = name;
  if (create) {
    nfs4::OpenCreate how;
    how.attributes.mode = kFileMode;
    args.create = how;
  }
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{root_}});
    list.push_back({Op::OP_OPEN, args});
    list.push_back({Op::OP_GETFH, nfs4::None{}});
    list.push_back({Op::OP_GETATTR, nfs4::GetAttrArgs{{nfs4::Attr::kSize}}});
    return list;
  };
  auto result = Engine::call(*mds_, ops, /*cache_this=*/true);
  if (!result) return fail(result.error().code, "open " + name + ": " + result.error().text);
  auto* opened = result->get<nfs4::OpenOk>(1);
  auto* handle = result->get<nfs4::GetFhOk>(2);
  auto* attributes = result->get<nfs4::GetAttrOk>(3);
  if (opened == nullptr || handle == nullptr || attributes == nullptr) {
    return fail(Errc::kProtocol, "open " + name + ": an answer is missing");
  }
  File file;
  file.name = name;
  file.handle = handle->handle;
  file.open = opened->stateid;
  file.size = attributes->attributes.size.value_or(0);
  if (settings_.pnfs) {
    if (auto granted = get_layout(file); !granted) return pass(granted);
  }
  return file;
}

Result<> Mount::get_layout(File& file) {
  nfs4::LayoutGetArgs args;
  args.iomode = nfs4::IoMode::LAYOUTIOMODE4_RW;
  args.min_length = 4096;
  args.stateid = file.open;
  args.max_count = kLayoutBytes;
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{file.handle}});
    list.push_back({Op::OP_LAYOUTGET, args});
    return list;
  };
  auto result = Engine::call(*mds_, ops);
  if (!result)
    return fail(result.error().code, "layout of " + file.name + ": " + result.error().text);
  auto* granted = result->get<nfs4::LayoutGetOk>(1);
  if (granted == nullptr || granted->segments.empty()) {
    return fail(Errc::kProtocol, "LAYOUTGET granted nothing");
  }
  const nfs4::LayoutSegment& segment = granted->segments.front();
  if (segment.type != layout::kLayoutTypeFiles) {
    return fail(Errc::kNotSupported, "layout type " + std::to_string(segment.type));
  }
  auto body = layout::decode_files_layout(segment.body);
  if (!body) return pass(body);
  auto where = device(body->device);
  if (!where) return pass(where);
  const auto count = static_cast<std::uint32_t>((*where)->stripe_indices.size());
  auto striping = layout::Striping::make(body->stripe_unit, count, body->first_stripe_index);
  if (!striping) return pass(striping);
  file.striping = *striping;
  file.layout = granted->stateid;
  for (const std::uint32_t index : (*where)->stripe_indices) {
    if (index >= body->handles.size()) return fail(Errc::kProtocol, "a stripe without a handle");
    file.parts.push_back({(*where)->servers[index], nfs4::FileHandle(body->handles[index])});
  }
  return {};
}

Result<const Mount::Device*> Mount::device(const nfs4::DeviceId& id) {
  if (auto known = devices_.find(id); known != devices_.end()) return &known->second;
  nfs4::GetDeviceInfoArgs args;
  args.device = id;
  args.max_count = kDeviceBytes;
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_GETDEVICEINFO, args});
    return list;
  };
  auto result = Engine::call(*mds_, ops);
  if (!result) return pass(result);
  auto* info = result->get<nfs4::GetDeviceInfoOk>(0);
  if (info == nullptr) return fail(Errc::kProtocol, "GETDEVICEINFO answered nothing");
  auto body = layout::decode_files_device(info->address);
  if (!body) return pass(body);
  Device device;
  device.stripe_indices = body->stripe_indices;
  for (const auto& addresses : body->servers) {
    if (addresses.empty()) return fail(Errc::kProtocol, "a data server without addresses");
    auto session = data_server(addresses.front());
    if (!session) return pass(session);
    device.servers.push_back(*session);
  }
  return &devices_.emplace(id, std::move(device)).first->second;
}

Result<rpc::SessionClient*> Mount::data_server(const layout::NetAddress& address) {
  auto& session = data_servers_[address];
  if (!session) {
    SessionSettings settings = settings_.session;
    settings.exchange_flags = nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
    auto made = engine_.connect(layout::ip_text(address), address.port, settings);
    if (!made) return pass(made);
    session = std::move(*made);
  }
  return session.get();
}

File::Part Mount::part_for(const File& file, std::uint64_t offset) {
  if (!file.striping) return {mds_.get(), file.handle};
  return file.parts[file.striping->server_of(offset)];
}

void Mount::read(File& file, std::uint64_t offset, std::uint32_t size, ReadDone done) {
  const File::Part part = part_for(file, offset);
  std::vector<nfs4::OpArgs> ops;
  ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{part.handle}});
  ops.push_back({Op::OP_READ, nfs4::ReadArgs{file.open, offset, size}});
  part.session->call(std::move(ops), {.idempotent = true},
                     [size, done = std::move(done)](Result<nfs4::CompoundResult> result) mutable {
                       if (!result) return done(pass(result));
                       if (auto ok = check(*result); !ok) return done(pass(ok));
                       auto* read = result->get<nfs4::ReadOk>(1);
                       if (read == nullptr)
                         return done(fail(Errc::kProtocol, "no READ in the answer"));
                       if (read->data.size() != size) return done(fail(Errc::kIo, "short read"));
                       done(std::move(read->data));
                     });
}

void Mount::write(File& file, std::uint64_t offset, Buffer data, nfs4::StableHow stable,
                  WriteDone done) {
  const File::Part part = part_for(file, offset);
  const std::size_t size = data.size();
  nfs4::WriteArgs args;
  args.stateid = file.open;
  args.offset = offset;
  args.stable = stable;
  args.data.push_back(std::move(data));
  std::vector<nfs4::OpArgs> ops;
  ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{part.handle}});
  ops.push_back({Op::OP_WRITE, std::move(args)});
  file.written_end = std::max<std::uint64_t>(file.written_end, offset + size);
  part.session->call(std::move(ops), {.idempotent = true},
                     [size, done = std::move(done)](Result<nfs4::CompoundResult> result) mutable {
                       if (!result) return done(pass(result));
                       if (auto ok = check(*result); !ok) return done(pass(ok));
                       auto* written = result->get<nfs4::WriteOk>(1);
                       if (written == nullptr)
                         return done(fail(Errc::kProtocol, "no WRITE in the answer"));
                       if (written->count != size) return done(fail(Errc::kIo, "short write"));
                       done({});
                     });
}

Result<> Mount::commit(File& file) {
  std::vector<File::Part> parts = file.parts;
  if (parts.empty()) parts.push_back({mds_.get(), file.handle});
  for (const File::Part& part : parts) {
    const auto ops = [&] {
      std::vector<nfs4::OpArgs> list;
      list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{part.handle}});
      list.push_back({Op::OP_COMMIT, nfs4::CommitArgs{}});
      return list;
    };
    if (auto done = Engine::call(*part.session, ops); !done) return pass(done);
  }
  return layout_commit(file);
}

Result<> Mount::layout_commit(File& file) {
  if (!file.striping || file.written_end == 0) return {};
  nfs4::LayoutCommitArgs args;
  args.length = UINT64_MAX;
  args.stateid = file.layout;
  args.last_write_offset = file.written_end - 1;
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{file.handle}});
    list.push_back({Op::OP_LAYOUTCOMMIT, args});
    return list;
  };
  if (auto done = Engine::call(*mds_, ops); !done) return pass(done);
  file.written_end = 0;
  return {};
}

Result<> Mount::close(File& file) {
  if (auto done = layout_commit(file); !done) return done;
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{file.handle}});
    if (file.striping) {
      nfs4::LayoutReturnArgs args;
      args.stateid = file.layout;
      list.push_back({Op::OP_LAYOUTRETURN, args});
    }
    list.push_back({Op::OP_CLOSE, nfs4::CloseArgs{0, file.open}});
    return list;
  };
  if (auto done = Engine::call(*mds_, ops); !done) return pass(done);
  return {};
}

Result<> Mount::remove(const std::string& name) {
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{root_}});
    list.push_back({Op::OP_REMOVE, nfs4::RemoveArgs{name}});
    return list;
  };
  if (auto done = Engine::call(*mds_, ops, true); !done) return pass(done);
  return {};
}

}  // namespace weft::load
