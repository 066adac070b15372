#include "tests/simulation/cluster/client.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <set>

#include "layout/device_table.h"
#include "rpc/transport/tcp_dialer.h"
#include "tests/simulation/world/fork.h"
#include "tests/simulation/world/thread.h"

namespace weft::sim {

using namespace std::chrono_literals;
using rpc::nfs4::Op;
using rpc::nfs4::Status;

namespace {

// However many faults there are, each ends: an application waits no longer than this.
constexpr Ns kPatience = 600 * kSecond;

// Of a client, at a time; and how long each of them is.
constexpr std::size_t kMostPassing = 4;
constexpr std::size_t kPassingBlocks = 8;

// What a thread waits for that another one answers.
template <class T>
class Waiter {
 public:
  void set(T value) {
    const std::lock_guard lock(mutex_);
    value_.emplace(std::move(value));
    changed_.notify_all();
  }
  T get() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return value_.has_value(); });
    return std::move(*value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<T> value_;
};

struct Answered {};

}  // namespace

Client::Client(unsigned index, MetadataMachine& mds, layout::PlacementPolicy policy)
    : index_(index), mds_(mds), policy_(policy), guard_(context_.get_executor()) {
  io_ = std::thread([this] {
    enter_node(node());
    context_.run();
  });
  recalls_answered_ = std::thread([this] { answer_recalls(); });
}

Client::~Client() {
  ending_ = true;
  wake_all(recall_came_);
  recalls_answered_.join();
  for (auto& [server, session] : sessions_) {
    Waiter<Answered> closed;
    session->close([&closed] { closed.set({}); });
    closed.get();
  }
  guard_.reset();
  context_.stop();
  io_.join();
  sessions_.clear();
}

void Client::begin(const std::string& what) {
  doing_ = what;
  deadline_ = now() + kPatience;
  trace("client " + std::to_string(index_) + ": " + what);
}

void Client::again() {
  ++totals_.again;
  if (now() > deadline_) {
    const Real real;
    std::fprintf(stderr, "client %u: %s is not over in time: %s\n", index_, doing_.c_str(),
                 refusal_.c_str());
    fail_run("an operation hangs");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(10 + choose(200)));
}

rpc::SessionClient& Client::session(const std::string& server) {
  auto& found = sessions_[server];
  if (found == nullptr) {
    rpc::SessionClientOptions options;
    options.owner = "client" + std::to_string(index_);
    options.verifier = 1;
    options.flags = rpc::nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
    found = std::make_unique<rpc::SessionClient>(
        context_, rpc::tcp_dialer(context_, pool_, server, kDataPort), options);
  }
  return *found;
}

struct Client::Call {
  Place place;
  Op op{};
  std::shared_ptr<Waiter<Result<rpc::nfs4::CompoundResult>>> answer;
};

Client::Call Client::begin_call(const Place& place, rpc::nfs4::OpArgs op) {
  Call begun{.place = place, .op = op.op, .answer = {}};
  begun.answer = std::make_shared<Waiter<Result<rpc::nfs4::CompoundResult>>>();
  std::vector<rpc::nfs4::OpArgs> ops;
  ops.push_back({Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(place.handle)}});
  ops.push_back(std::move(op));
  session(place.server)
      .call(std::move(ops), {.deadline = 15s, .idempotent = true},
            [waiter = begun.answer](auto result) { waiter->set(std::move(result)); });
  return begun;
}

template <class Ok>
std::optional<Ok> Client::end_call(Call& begun, Failures& failures) {
  auto result = begun.answer->get();
  auto* const ok = result ? result->get<Ok>(1) : nullptr;
  if (ok != nullptr && result->status == Status::NFS4_OK) return std::move(*ok);
  refusal_ =
      begun.place.server + " has not done its part: " +
      (result ? std::string(rpc::nfs4::to_string(result->status)) : result.error().describe());
  if (!result) failures.unknown = true;
  const Status status = result ? result->status : Status::NFS4ERR_NXIO;
  failures.errors.push_back({.device = begun.place.device,
                             .status = static_cast<std::uint32_t>(status),
                             .op = static_cast<std::uint32_t>(begun.op)});
  return std::nullopt;
}

void Client::create(SharedFile& file, const std::string& name) {
  begin("create " + name);
  for (;; again()) {
    const auto made = ask<Result<mds::Created>>([&](mds::MetadataServer& server) {
      return server.names().create(mds::kSuperuser, mds::kRootFileId, name, {.mode = 0644},
                                   mds::CreateHow::kUnchecked);
    });
    if (!made || !*made) continue;
    file.id = (*made)->attributes.id;
    file.name = name;
    names_[name] = true;
    return;
  }
}

Client::Layout* Client::layout_of(mds::FileId file, bool writes) {
  const auto held = layouts_.find(file);
  if (held != layouts_.end()) {
    Layout& layout = held->second;
    const bool current = layout.life == mds_.lives() && !layout.recalled;
    if (current && (layout.writes || !writes)) return &layout;
    give_back(file, false);
  }
  struct Got {
    Result<mds::FileData::Granted> granted = fail(Errc::kInternal, "");
    Result<HeldLayout> held = fail(Errc::kInternal, "");
  };
  unsigned life = 0;
  auto got = ask<Got>(
      [&](mds::MetadataServer& server) {
        Got answer;
        answer.granted = server.data().grant(
            {.file = file,
             .client = id(),
             .access = writes ? layout::Access::kReadWrite : layout::Access::kRead,
             .max_bytes = 4096,
             .type = policy_.type,
             // Of a file that is inline it is refused then: the client goes to the server itself.
             .with_open = policy_.inline_bytes != 0 && choose(2) == 0},
            policy_);
        if (!answer.granted) return answer;
        answer.held = HeldLayout::make(
            policy_.type, answer.granted->body, [&](const layout::DeviceIdBytes& device) {
              return server.data().device_body(*layout::unpack(device), policy_.type, {});
            });
        return answer;
      },
      &life);
  if (!got || !got->granted) {
    refusal_ = "no layout: " + (got ? got->granted.error().describe() : "no answer");
    return nullptr;
  }
  Layout layout;
  layout.life = life;
  layout.writes = writes;
  if (!got->held) {
    layouts_.emplace(file, layout);
    give_back(file, false);
    return nullptr;
  }
  layout.held = std::move(*got->held);
  return &layouts_.emplace(file, std::move(layout)).first->second;
}

void Client::report(mds::MetadataServer& server, mds::FileId file, const Failures& failures) const {
  if (policy_.type != layout::LayoutType::kFlexFiles) return;
  for (const layout::DeviceError& error : failures.errors) {
    server.data().reports().errors(file, id(), failures.offset, {&error, 1});
  }
}

void Client::give_back(mds::FileId file, bool forgotten, const Failures& failures) {
  const auto held = layouts_.find(file);
  if (held == layouts_.end()) return;
  const Layout layout = held->second;
  layouts_.erase(held);
  if (layout.life != mds_.lives()) {
    // It had the file open before the restart, and reclaims that.
    if (!layout.writes) return;
    static_cast<void>(ask<Answered>([&](mds::MetadataServer& server) {
      server.data().relearn_size(file);
      return Answered{};
    }));
    return;
  }
  static_cast<void>(ask<Answered>([&](mds::MetadataServer& server) {
    report(server, file, failures);
    server.data().layout_ended(
        file, id(), layout.writes ? layout::Access::kReadWrite : layout::Access::kRead, forgotten);
    return Answered{};
  }));
}

void Client::lose(mds::FileId file, const Failures& failures) {
  const auto held = layouts_.find(file);
  if (held == layouts_.end()) return;
  const unsigned life = held->second.life;
  // Until the server has heard of it: what was sent must not come after what is sent next.
  while (life == mds_.lives()) {
    const auto told = ask<Answered>([&](mds::MetadataServer& server) {
      report(server, file, failures);
      server.layouts().revoke(file, id(), "a request has no answer");
      return Answered{};
    });
    if (told) break;
    again();
  }
  layouts_.erase(file);
}

void Client::recalled(mds::FileId file) {
  recalls_.push_back(file);
  wake_all(recall_came_);
}

// Gives layouts back when they are not in use.
void Client::answer_recalls() {
  enter_node(node());
  for (;;) {
    while (recalls_.empty() && !ending_) wait(recall_came_);
    if (ending_) return;
    const mds::FileId file = recalls_.front();
    recalls_.pop_front();
    const std::lock_guard lock(mutex_);
    give_back(file, false);
  }
}

bool Client::write_piece(SharedFile& file, const Layout& layout, std::size_t block,
                         rpc::nfs4::StableHow stable, std::vector<Piece>& pieces,
                         Failures& failures) {
  const std::vector<std::byte> bytes = file.history.last(block);
  failures.offset = block * kBlockBytes;
  std::vector<Call> calls;
  for (const Place& place : layout.held.places(block)) {
    rpc::nfs4::WriteArgs args{.offset = block * kBlockBytes, .stable = stable};
    auto buffer = pool_.allocate(bytes.size());
    if (!buffer) fail_run("a client's memory is not given back");
    std::memcpy(buffer->data(), bytes.data(), bytes.size());
    args.data.push_back(std::move(*buffer));
    calls.push_back(begin_call(place, {Op::OP_WRITE, std::move(args)}));
  }
  bool good = true;
  for (Call& call : calls) {
    const auto ok = end_call<rpc::nfs4::WriteOk>(call, failures);
    good = good && ok && ok->count == kBlockBytes;
    if (!ok) continue;
    pieces.push_back({.place = call.place,
                      .verifier = ok->verifier,
                      .stable = ok->committed == rpc::nfs4::StableHow::FILE_SYNC4});
  }
  return good;
}

bool Client::commit_pieces(const std::vector<Piece>& pieces, Failures& failures) {
  std::set<std::string> committed;
  for (const Piece& piece : pieces) {
    if (!committed.insert(piece.place.server).second) continue;
    Call call = begin_call(piece.place, {Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
    const auto ok = end_call<rpc::nfs4::CommitOk>(call, failures);
    if (!ok) return false;
    for (const Piece& other : pieces) {
      if (other.place.server == piece.place.server && other.verifier != ok->verifier) return false;
    }
  }
  return true;
}

bool Client::write_by_layout(SharedFile& file, const Blocks& blocks) {
  const std::lock_guard lock(mutex_);
  const Layout* layout = layout_of(file.id, true);
  if (layout == nullptr) return false;
  std::vector<Piece> pieces;
  Failures failures;
  const auto how =
      choose(3) == 0 ? rpc::nfs4::StableHow::FILE_SYNC4 : rpc::nfs4::StableHow::UNSTABLE4;
  const bool written = std::ranges::all_of(blocks, [&](std::size_t block) {
    return write_piece(file, *layout, block, how, pieces, failures);
  });
  const bool stable = written && std::ranges::all_of(pieces, &Piece::stable);
  // Of the files layout there is nothing to commit then, at neither server.
  if (stable && policy_.type == layout::LayoutType::kFiles) return true;
  if (!written || (!stable && !commit_pieces(pieces, failures))) {
    if (failures.unknown) {
      lose(file.id, failures);
    } else {
      give_back(file.id, true, failures);
    }
    return false;
  }
  std::uint64_t end = 0;
  for (const std::size_t block : blocks) end = std::max(end, (block + 1) * kBlockBytes);
  unsigned life = 0;
  const unsigned granted = layout->life;
  const auto told = ask<Result<std::uint64_t>>(
      [&](mds::MetadataServer& server) {
        return server.data().commit({.id = file.id, .end = end, .mtime_ns = {}}, id());
      },
      &life);
  return told && *told && life == granted;
}

bool Client::write_by_mds(SharedFile& file, const Blocks& blocks) {
  for (const std::size_t block : blocks) {
    const std::vector<std::byte> bytes = file.history.last(block);
    const auto written = ask<Result<mds::ProxyIo::WriteResult>>(
        [&](mds::MetadataServer& server) -> Result<mds::ProxyIo::WriteResult> {
          const std::span<const std::byte> one(bytes);
          const mds::ProxyIo::Pieces pieces(&one, 1);
          Waiter<Answered> answered;
          auto begun = server.data().begin_write(file.id, block * kBlockBytes, pieces,
                                                 mds::ProxyIo::Stability::kFileSync, policy_,
                                                 [&answered] { answered.set({}); });
          if (!begun) return pass(begun);
          if ((*begun)->later) static_cast<void>(answered.get());
          return server.data().end_write(**begun, pieces);
        });
    if (!written || !*written) {
      refusal_ = "not written: " + (written ? written->error().describe() : "no answer");
      return false;
    }
  }
  return true;
}

void Client::write_and_sync(SharedFile& file) {
  Blocks blocks;
  const std::size_t first = choose(file.history.blocks());
  const std::size_t last = std::min(file.history.blocks(), first + 1 + choose(4));
  for (std::size_t block = first; block < last; ++block) {
    blocks.push_back(block);
    static_cast<void>(file.history.next(block));
  }
  begin("write file " + std::to_string(file.id) + " blocks " + std::to_string(first) + " to " +
        std::to_string(last - 1));
  bool by_mds = choose(4) == 0;
  while (!(by_mds ? write_by_mds(file, blocks) : write_by_layout(file, blocks))) {
    again();
    by_mds = choose(3) == 0;
  }
  for (const std::size_t block : blocks) file.history.promise(block);
  note(file.id);
  ++totals_.syncs;
}

void Client::write_when_fenced(SharedFile& file) {
  begin("write inode " + std::to_string(file.id) + " when fenced");
  const std::lock_guard lock(mutex_);
  const Layout* held = nullptr;
  while ((held = layout_of(file.id, true)) == nullptr) again();
  const Layout old = *held;
  lose(file.id);
  // Whoever is given a layout of the file now relies on the fence.
  while ((held = layout_of(file.id, true)) == nullptr) again();
  // A metadata server that died meanwhile knows of no revocation: what the client held holds.
  if (old.life != held->life) return;
  for (std::size_t block = 0; block < file.history.blocks(); block += 3) {
    std::vector<Piece> taken;
    Failures ignored;
    static_cast<void>(
        write_piece(file, old, block, rpc::nfs4::StableHow::UNSTABLE4, taken, ignored));
    if (!taken.empty()) fail_run("a data server took a write of who was fenced");
  }
}

void Client::check(const SharedFile& file, std::size_t block, std::span<const std::byte> bytes,
                   std::uint32_t promised, const std::string& way) {
  const std::string wrong = file.history.wrong(block, bytes, promised);
  if (wrong.empty()) return;
  {
    const Real real;
    std::fprintf(stderr, "client %u read inode %llu %s: %s\n", index_,
                 static_cast<unsigned long long>(file.id), way.c_str(), wrong.c_str());
  }
  fail_run("acknowledged bytes are lost");
}

bool Client::read_by_layout(SharedFile& file, std::size_t block) {
  const std::lock_guard lock(mutex_);
  const Layout* layout = layout_of(file.id, false);
  if (layout == nullptr) return false;
  const std::uint32_t promised = file.history.promised()[block];
  Failures failures;
  failures.offset = block * kBlockBytes;
  for (const Place& place : layout->held.places(block)) {
    Call call = begin_call(place, {Op::OP_READ, rpc::nfs4::ReadArgs{.offset = block * kBlockBytes,
                                                                    .count = kBlockBytes}});
    auto ok = end_call<rpc::nfs4::ReadOk>(call, failures);
    if (!ok) continue;
    const auto bytes = ok->data.flatten().value();
    check(file, block, {bytes.data(), bytes.size()}, promised, "at " + place.server);
    if (failures.errors.empty()) return true;
    // LAYOUTERROR.
    static_cast<void>(ask<Answered>([&](mds::MetadataServer& server) {
      report(server, file.id, failures);
      return Answered{};
    }));
    return true;
  }
  give_back(file.id, true, failures);
  return false;
}

bool Client::read_by_mds(SharedFile& file, std::size_t block) {
  const std::uint32_t promised = file.history.promised()[block];
  const auto read = ask<Result<std::vector<std::byte>>>(
      [&](mds::MetadataServer& server) -> Result<std::vector<std::byte>> {
        Waiter<Answered> answered;
        auto begun = server.data().begin_read(file.id, block * kBlockBytes, kBlockBytes,
                                              [&answered] { answered.set({}); });
        if (!begun) return pass(begun);
        if ((*begun)->later) static_cast<void>(answered.get());
        auto got = server.data().end_read(**begun);
        if (!got) return pass(got);
        auto flat = got->data.flatten();
        if (!flat) return pass(flat);
        return std::vector<std::byte>(flat->data(), flat->data() + flat->size());
      });
  if (!read || !*read) return false;
  check(file, block, **read, promised, "through the metadata server");
  return true;
}

void Client::read(SharedFile& file, bool through_mds) {
  read_block(file, choose(file.history.blocks()), through_mds);
}

void Client::read_block(SharedFile& file, std::size_t block, bool through_mds) {
  begin("read file " + std::to_string(file.id) + " block " + std::to_string(block));
  while (!(through_mds ? read_by_mds(file, block) : read_by_layout(file, block))) {
    again();
    through_mds = choose(2) == 0;
  }
  ++totals_.reads;
}

void Client::read_in_order(std::span<const std::unique_ptr<SharedFile>> files) {
  constexpr std::size_t kMost = 4;  // blocks of a file; one at each data server
  const std::size_t blocks = std::min(files.front()->history.blocks(), kMost);
  for (int round = 0; round < 3; ++round) {
    if (round == 2) std::this_thread::sleep_for(std::chrono::seconds(3));
    for (std::size_t block = 0; block < blocks; ++block) {
      for (const auto& file : files) read_block(*file, block, false);
    }
  }
}

void Client::look(SharedFile& file) {
  begin("look at inode " + std::to_string(file.id));
  for (;; again()) {
    const History::Look look = file.history.look();
    const auto told = ask<Result<mds::InodeAttributes>>(
        [&](mds::MetadataServer& server) -> Result<mds::InodeAttributes> {
          if (auto known = server.data().size_known(file.id); !known) return pass(known);
          return server.names().getattr(file.id);
        });
    if (!told || !*told) continue;
    const std::string wrong = file.history.wrong_change(look, (*told)->change);
    if (!wrong.empty()) {
      {
        const Real real;
        std::fprintf(stderr, "client %u looked at inode %llu: %s\n", index_,
                     static_cast<unsigned long long>(file.id), wrong.c_str());
      }
      fail_run("a change cannot be seen");
    }
    break;
  }
  ++totals_.looks;
}

void Client::truncate(SharedFile& file) {
  const std::size_t first = choose(file.history.blocks() + 1);
  begin("truncate inode " + std::to_string(file.id) + " before block " + std::to_string(first));
  for (std::size_t block = first; block < file.history.blocks(); ++block) file.history.cut(block);
  mds::AttributeChange change;
  change.size = first * kBlockBytes;
  for (;; again()) {
    const auto done = ask<Result<mds::InodeAttributes>>([&](mds::MetadataServer& server) {
      return server.data().set_attributes(mds::kSuperuser, file.id, change, id());
    });
    if (done && *done) break;
  }
  for (std::size_t block = first; block < file.history.blocks(); ++block) {
    file.history.promise(block);
  }
}

void Client::work_on_names() {
  const std::string name = "c" + std::to_string(index_) + "-" + std::to_string(next_name_++);
  begin("names " + name);
  for (;; again()) {
    const auto made = ask<Result<mds::Created>>([&](mds::MetadataServer& server) {
      return server.names().create(mds::kSuperuser, mds::kRootFileId, name, {.mode = 0644},
                                   mds::CreateHow::kUnchecked);
    });
    if (made && *made) break;
  }
  names_[name] = true;
  const std::string second = name + "-renamed";
  if (choose(2) == 0) {
    for (;; again()) {
      const auto moved = ask<Result<mds::Renamed>>([&](mds::MetadataServer& server) {
        return server.names().rename(mds::kSuperuser, mds::kRootFileId, name, mds::kRootFileId,
                                     second);
      });
      if (moved && (*moved || moved->error() == Errc::kNotFound)) break;  // or it was done before
    }
    names_[name] = false;
    names_[second] = true;
  } else if (choose(2) == 0) {
    remove(name);
  }
  ++totals_.names;
}

void Client::remove(const std::string& name) {
  for (;; again()) {
    const auto gone = ask<Result<mds::Removed>>([&](mds::MetadataServer& server) {
      auto removed = server.names().remove(mds::kSuperuser, mds::kRootFileId, name);
      if (removed && removed->orphaned) server.orphaned(removed->attributes.id);
      return removed;
    });
    if (gone && (*gone || gone->error() == Errc::kNotFound)) break;  // or it was done before
  }
  names_[name] = false;
}

void Client::work_on_passing_files(bool one_goes) {
  if (passing_.size() == kMostPassing) one_goes = true;
  if (!passing_.empty() && (one_goes || choose(3) == 0)) {
    const auto chosen = passing_.begin() + static_cast<std::ptrdiff_t>(choose(passing_.size()));
    const std::unique_ptr<SharedFile> file = std::move(*chosen);
    passing_.erase(chosen);
    if (choose(2) == 0) write_and_sync(*file);
    remove_file(*file);
    return;
  }
  const unsigned number = next_name_++;
  // No other file of the run has this number.
  auto file = std::make_unique<SharedFile>(1000 * (index_ + 1) + number, kPassingBlocks);
  create(*file, "p" + std::to_string(index_) + "-" + std::to_string(number));
  write_and_sync(*file);
  passing_.push_back(std::move(file));
}

// As often as not it is open meanwhile: then it has its data until it is closed.
void Client::remove_file(SharedFile& file) {
  begin("remove " + file.name + ", inode " + std::to_string(file.id));
  unsigned opened_in = 0;  // a life of the metadata server; 0: it is not open
  if (choose(2) == 0) {
    static_cast<void>(ask<Answered>([&](mds::MetadataServer& server) {
      if (server.names().hold(file.id)) opened_in = mds_.lives();
      return Answered{};
    }));
  }
  if (opened_in == 0) close_layout(file.id);
  remove(file.name);
  if (opened_in != 0 && choose(2) == 0) {
    static_cast<void>(file.history.next(0));
    static_cast<void>(write_by_layout(file, {0}));
  }
  close_layout(file.id);
  // CLOSE is said again until it is answered, and done once.
  for (bool closed = opened_in == 0; !closed && opened_in == mds_.lives();) {
    static_cast<void>(ask<Answered>([&](mds::MetadataServer& server) {
      if (opened_in == mds_.lives() && !std::exchange(closed, true)) server.release(file.id);
      return Answered{};
    }));
    if (!closed) again();
  }
  ++totals_.removed;
}

void Client::close_layout(mds::FileId file) {
  const std::lock_guard lock(mutex_);
  give_back(file, false);
}

void Client::check_names() {
  for (const auto& [name, promised] : names_) {
    begin("look up " + name);
    for (;; again()) {
      const auto found = ask<Result<mds::InodeAttributes>>([&](mds::MetadataServer& server) {
        return server.names().lookup(mds::kRootFileId, name);
      });
      if (!found || (!*found && found->error() != Errc::kNotFound)) continue;
      if (found->has_value() != promised) {
        const Real real;
        std::fprintf(stderr, "client %u: the name %s is %s\n", index_, name.c_str(),
                     promised ? "lost" : "back");
        fail_run("an acknowledged change of names is lost");
      }
      break;
    }
  }
}

}  // namespace weft::sim
