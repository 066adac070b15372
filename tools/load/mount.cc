#include "tools/load/mount.h"

#include <boost/asio/post.hpp>
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

// ff_layoutreturn4 (RFC 8435 section 9): no I/O errors, no statistics.
std::vector<std::byte> no_flex_reports() { return std::vector<std::byte>(8); }

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

Result<File> Mount::open(const std::string& name, bool create, bool writing) {
  nfs4::OpenArgs args;
  args.share_access = nfs4::OPEN4_SHARE_ACCESS_BOTH | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  args.owner = open_owner();
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
  file.writing = writing;
  if (settings_.pnfs) {
    if (auto granted = get_layout(file, writing); !granted) return pass(granted);
  }
  return file;
}

nfs4::LayoutType Mount::layout_type() const {
  return settings_.flexfiles ? nfs4::LayoutType::LAYOUT4_FLEX_FILES
                             : nfs4::LayoutType::LAYOUT4_NFSV4_1_FILES;
}

Result<> Mount::get_layout(File& file, bool writing) {
  nfs4::LayoutGetArgs args;
  args.type = layout_type();
  args.iomode = writing ? nfs4::IoMode::LAYOUTIOMODE4_RW : nfs4::IoMode::LAYOUTIOMODE4_READ;
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
  if (segment.type != static_cast<std::uint32_t>(args.type)) {
    return fail(Errc::kNotSupported, "layout type " + std::to_string(segment.type));
  }
  file.layout = granted->stateid;
  return settings_.flexfiles ? take_flex_layout(file, segment.body)
                             : take_files_layout(file, segment.body);
}

Result<> Mount::take_files_layout(File& file, std::span<const std::byte> encoded) {
  auto body = layout::decode_files_layout(encoded);
  if (!body) return pass(body);
  auto where = device(body->device);
  if (!where) return pass(where);
  const auto count = static_cast<std::uint32_t>((*where)->stripe_indices.size());
  auto striping = layout::Striping::make(body->stripe_unit, count, body->first_stripe_index);
  if (!striping) return pass(striping);
  file.striping = *striping;
  for (const std::uint32_t index : (*where)->stripe_indices) {
    if (index >= body->handles.size()) return fail(Errc::kProtocol, "a stripe without a handle");
    file.parts.push_back({(*where)->servers[index], nfs4::FileHandle(body->handles[index])});
  }
  return {};
}

Result<> Mount::take_flex_layout(File& file, std::span<const std::byte> encoded) {
  auto body = layout::decode_flex_layout(encoded);
  if (!body) return pass(body);
  std::uint32_t best = 0;
  for (const auto& mirror : body->mirrors) {
    if (mirror.size() != 1) return fail(Errc::kNotSupported, "stripes within mirrors");
    const layout::FlexServer& server = mirror.front();
    auto session = flex_server(server.device);
    if (!session) return pass(session);
    file.parts.push_back({*session, nfs4::FileHandle(server.handle)});
    if (server.efficiency <= best) continue;
    best = server.efficiency;
    std::swap(file.parts.front(), file.parts.back());  // the first is read
  }
  if (file.parts.empty()) return fail(Errc::kProtocol, "a layout without mirrors");
  const auto send = [parts = file.parts, open = file.open](std::size_t copy, std::uint64_t offset,
                                                           Buffer data, ClientCopies::Done done) {
    nfs4::WriteArgs args;
    args.stateid = open;
    args.offset = offset;
    args.data.push_back(std::move(data));
    write_part(parts[copy], std::move(args), std::move(done));
  };
  file.copies = std::make_shared<ClientCopies>(file.parts.size(), settings_.answer,
                                               settings_.window_bytes, send);
  return {};
}

Result<nfs4::GetDeviceInfoOk> Mount::device_info(const nfs4::DeviceId& id) {
  nfs4::GetDeviceInfoArgs args;
  args.type = layout_type();
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
  return std::move(*info);
}

Result<rpc::SessionClient*> Mount::flex_server(const nfs4::DeviceId& id) {
  if (auto known = flex_devices_.find(id); known != flex_devices_.end()) return known->second;
  auto info = device_info(id);
  if (!info) return pass(info);
  auto body = layout::decode_flex_device(info->address);
  if (!body) return pass(body);
  auto session = data_server(body->addresses);
  if (session) flex_devices_.emplace(id, *session);
  return session;
}

Result<const Mount::Device*> Mount::device(const nfs4::DeviceId& id) {
  if (auto known = devices_.find(id); known != devices_.end()) return &known->second;
  auto info = device_info(id);
  if (!info) return pass(info);
  auto body = layout::decode_files_device(info->address);
  if (!body) return pass(body);
  Device device;
  device.stripe_indices = body->stripe_indices;
  for (const auto& addresses : body->servers) {
    auto session = data_server(addresses);
    if (!session) return pass(session);
    device.servers.push_back(*session);
  }
  return &devices_.emplace(id, std::move(device)).first->second;
}

Result<rpc::SessionClient*> Mount::data_server(std::span<const layout::DeviceAddress> addresses) {
  const auto by_tcp = layout::only(layout::Transport::kTcp, addresses);
  if (by_tcp.empty()) return fail(Errc::kProtocol, "a data server without an address for TCP");
  const layout::NetAddress& address = by_tcp.front();
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
  if (file.copies) return file.parts.front();
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
  file.written_end = std::max<std::uint64_t>(file.written_end, offset + data.size());
  if (file.copies) {
    if (stable != nfs4::StableHow::UNSTABLE4) return done(fail(Errc::kNotSupported));
    return file.copies->write(offset, std::move(data), std::move(done));
  }
  nfs4::WriteArgs args;
  args.stateid = file.open;
  args.offset = offset;
  args.stable = stable;
  args.data.push_back(std::move(data));
  write_part(part_for(file, offset), std::move(args), std::move(done));
}

void Mount::write_part(const File::Part& part, nfs4::WriteArgs args, WriteDone done) {
  std::size_t size = 0;
  for (const Buffer& piece : args.data) size += piece.size();
  std::vector<nfs4::OpArgs> ops;
  ops.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{part.handle}});
  ops.push_back({Op::OP_WRITE, std::move(args)});
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

Result<> Mount::drain(File& file) {
  if (!file.copies) return {};
  std::promise<Result<>> drained;
  boost::asio::post(engine_.context(), [&] {
    file.copies->drain([&](Result<> result) { drained.set_value(std::move(result)); });
  });
  return drained.get_future().get();
}

Result<> Mount::commit(File& file) {
  if (auto all = drain(file); !all) return all;
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
  if (file.parts.empty() || file.written_end == 0) return {};
  nfs4::LayoutCommitArgs args;
  args.type = static_cast<std::uint32_t>(layout_type());
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
  if (auto all = drain(file); !all) return all;
  if (auto done = layout_commit(file); !done) return done;
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{file.handle}});
    if (!file.parts.empty()) list.push_back(layout_return(file));
    list.push_back({Op::OP_CLOSE, nfs4::CloseArgs{0, file.open}});
    return list;
  };
  if (auto done = Engine::call(*mds_, ops); !done) return pass(done);
  return {};
}

nfs4::OpArgs Mount::layout_return(const File& file) const {
  nfs4::LayoutReturnArgs args;
  args.type = layout_type();
  args.body = file.copies ? no_flex_reports() : std::vector<std::byte>{};
  args.stateid = file.layout;
  return {Op::OP_LAYOUTRETURN, args};
}

Result<> Mount::renew_layout(File& file) {
  const auto ops = [&] {
    std::vector<nfs4::OpArgs> list;
    list.push_back({Op::OP_PUTFH, nfs4::PutFhArgs{file.handle}});
    list.push_back(layout_return(file));
    return list;
  };
  // One that was taken away cannot be given back.
  static_cast<void>(Engine::call(*mds_, ops));
  file.striping.reset();
  file.parts.clear();
  return get_layout(file, file.writing);
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
