#include "rpc/session/client_table.h"

#include <algorithm>
#include <cctype>

#include "rpc/base/assert.h"
#include "rpc/session/cluster_session.h"

namespace weft::rpc {
namespace {

using nfs4::Status;

constexpr std::uint32_t kSuppFenceOps = 0x4;  // EXCHGID4_FLAG_SUPP_FENCE_OPS, RFC 7862
constexpr std::uint32_t kKnownFlags =
    nfs4::EXCHGID4_FLAG_SUPP_MOVED_REFER | nfs4::EXCHGID4_FLAG_SUPP_MOVED_MIGR | kSuppFenceOps |
    nfs4::EXCHGID4_FLAG_BIND_PRINC_STATEID | nfs4::EXCHGID4_FLAG_MASK_PNFS |
    nfs4::EXCHGID4_FLAG_UPD_CONFIRMED_REC_A;

// A client that wants less cannot send the session's own operations any more.
constexpr std::uint32_t kLeastMessage = 512;

// Between two looks at all clients, for one whose lease has ended.
constexpr std::chrono::seconds kBetweenLooks{1};

std::string as_string(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// For logs: the owner with anything unprintable replaced.
std::string printable(std::string text) {
  for (char& c : text) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
  }
  return text;
}

std::vector<std::byte> as_bytes(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// One name by two transports is two names, but for a server's.
std::string indexed(std::span<const std::byte> owner, bool by_rdma) {
  std::string text = as_string(owner);
  text.push_back(by_rdma ? '\1' : '\0');
  return text;
}

}  // namespace

std::size_t ClientTable::IdHash::operator()(const nfs4::SessionId& id) const {
  std::size_t low = 0;  // as random as the rest
  std::memcpy(&low, id.data(), sizeof low);
  return low;
}

ClientTable::ClientTable(const SessionServerOptions& options, Clock& clock, Random& random)
    : options_(options), clock_(clock), random_(random) {
  WEFT_ASSERT(!options.server_major_id.empty());
}

OrStatus<nfs4::ExchangeIdOk> ClientTable::exchange_id(const nfs4::ExchangeIdArgs& args,
                                                      const std::string& principal,
                                                      const std::string& host, bool by_rdma) {
  if ((args.flags & ~kKnownFlags) != 0) return std::unexpected(Status::NFS4ERR_INVAL);
  if (args.protection != nfs4::StateProtect::SP4_NONE) {
    return std::unexpected(Status::NFS4ERR_INVAL);
  }
  const std::uint64_t key = options_.server_key ? options_.server_key(args) : 0;
  const bool server = key != 0;
  // With a key that is not known here yet. As a client it would stay one for as long as its session
  // lives, and handles of servers would be refused.
  if (options_.server_key && !server && claims_to_be_server(args)) {
    return std::unexpected(Status::NFS4ERR_DELAY);
  }
  // What it sent by one transport is not to be carried out once it has come anew by the other.
  by_rdma = by_rdma && !server;
  std::string owner = indexed(args.owner, by_rdma);
  const MutexLock lock(mutex_);
  // It was dropped meanwhile: keys_changed() has looked for those who are there.
  if (server && !accepts(key)) return std::unexpected(Status::NFS4ERR_DELAY);
  Record* confirmed = owner_record(owner, true);
  const Record* unconfirmed = owner_record(owner, false);
  // Who cannot show that it is that server does not end what the server has.
  const auto anothers = [&](const Record* record) WEFT_REQUIRES(mutex_) {
    return record != nullptr && record->client->info.server && !server && !expired(*record);
  };
  if (anothers(confirmed) || anothers(unconfirmed)) {
    return std::unexpected(Status::NFS4ERR_CLID_INUSE);
  }
  if ((args.flags & nfs4::EXCHGID4_FLAG_UPD_CONFIRMED_REC_A) != 0) {
    return update(confirmed, args, principal);
  }
  // Who shows that it is that server is not kept out by who took its name, with a key that was
  // dropped perhaps.
  const bool impostor = server && confirmed != nullptr && !accepts(confirmed->key);
  if (confirmed != nullptr && !impostor) {
    if (confirmed->client->info.principal != principal) {
      // Two who claim one name: the first keeps it while its lease lasts, if it has anything here.
      const bool stays = confirmed->client->has_right.load() || is_busy(*confirmed);
      if (stays && !end_if_expired(*confirmed)) {
        return std::unexpected(Status::NFS4ERR_CLID_INUSE);
      }
      drop_record(confirmed->client->info.id);
    } else if (confirmed->verifier == args.verifier) {
      return describe(*confirmed);
    }
  }
  if (unconfirmed != nullptr) drop_record(unconfirmed->client->info.id);
  auto record =
      add_record(args, std::move(owner), {principal, server ? std::string{} : host, key, by_rdma});
  if (!record) return std::unexpected(record.error());
  return describe(**record);
}

OrStatus<nfs4::ExchangeIdOk> ClientTable::update(Record* confirmed,
                                                 const nfs4::ExchangeIdArgs& args,
                                                 const std::string& principal) {
  if (confirmed == nullptr) return std::unexpected(Status::NFS4ERR_NOENT);
  if (confirmed->verifier != args.verifier) return std::unexpected(Status::NFS4ERR_NOT_SAME);
  if (confirmed->client->info.principal != principal) {
    return std::unexpected(Status::NFS4ERR_PERM);
  }
  return describe(*confirmed);
}

OrStatus<ClientTable::Record*> ClientTable::add_record(const nfs4::ExchangeIdArgs& args,
                                                       std::string owner, const Origin& origin) {
  const auto& [principal, host, key, by_rdma] = origin;
  const bool server = key != 0;
  while (!has_room(server, host)) {
    if (!make_room(server, host)) return std::unexpected(Status::NFS4ERR_DELAY);
  }
  // Who knew another's could make itself sessions, and get those there are: CREATE_SESSION is
  // answered to whoever has the id, again when it is asked again.
  nfs4::ClientId id = random_.u64();
  while (id == 0 || records_.contains(id)) id = random_.u64();
  auto client = std::make_shared<ServerClient>();
  client->info = {.id = id,
                  .owner = printable(as_string(args.owner)),
                  .impl_name = args.impl ? printable(args.impl->name) : std::string{},
                  .principal = principal,
                  .server = server};
  static_cast<void>(renew(*client));
  Record& record = records_[id];
  Use& all = use_of(server);
  ++all.clients;
  record.newcomer = {.of_all = all.newcomers.insert(all.newcomers.end(), id), .of_host = {}};
  if (!host.empty()) {
    Use& own = hosts_[host];
    ++own.clients;
    record.newcomer->of_host = own.newcomers.insert(own.newcomers.end(), id);
  }
  record.client = std::move(client);
  record.verifier = args.verifier;
  record.owner = owner;
  record.host = host;
  record.key = key;
  record.by_rdma = by_rdma;
  unconfirmed_[std::move(owner)] = id;
  return &record;
}

nfs4::ExchangeIdOk ClientTable::describe(const Record& record) const {
  nfs4::ExchangeIdOk ok;
  ok.client_id = record.client->info.id;
  ok.sequence = record.create_sequence + 1;
  ok.flags = options_.role | (record.confirmed ? nfs4::EXCHGID4_FLAG_CONFIRMED_R : 0);
  ok.server_major_id = as_bytes(options_.server_major_id + (record.by_rdma ? "-rdma" : ""));
  ok.server_scope = as_bytes(options_.server_scope);
  return ok;
}

OrStatus<nfs4::CreateSessionOk> ClientTable::create_session(const nfs4::CreateSessionArgs& args,
                                                            const std::string& principal) {
  const MutexLock lock(mutex_);
  const auto found = records_.find(args.client_id);
  if (found == records_.end()) return std::unexpected(Status::NFS4ERR_STALE_CLIENTID);
  Record& record = found->second;
  if (args.sequence == record.create_sequence) return record.create_result;
  if (args.sequence != record.create_sequence + 1) {
    return std::unexpected(Status::NFS4ERR_SEQ_MISORDERED);
  }
  if (!record.confirmed && record.client->info.principal != principal) {
    return std::unexpected(Status::NFS4ERR_CLID_INUSE);
  }
  static_cast<void>(renew(*record.client));
  record.create_sequence = args.sequence;
  record.create_result = make_session(record, args);
  if (record.create_result && !record.confirmed) confirm(record);
  return record.create_result;
}

OrStatus<nfs4::CreateSessionOk> ClientTable::make_session(Record& record,
                                                          const nfs4::CreateSessionArgs& args) {
  constexpr std::uint32_t kFlags = nfs4::CREATE_SESSION4_FLAG_PERSIST |
                                   nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN |
                                   nfs4::CREATE_SESSION4_FLAG_CONN_RDMA;
  if ((args.flags & ~kFlags) != 0) return std::unexpected(Status::NFS4ERR_INVAL);
  if (args.fore.max_request < kLeastMessage || args.fore.max_response < kLeastMessage) {
    return std::unexpected(Status::NFS4ERR_TOOSMALL);
  }
  if (!record.client->has_right.load() && !record.sessions.empty() && !is_busy(record)) {
    drop_session(record, record.sessions.front());
    record.sessions.pop_front();
  }
  if (record.sessions.size() >= options_.max_sessions_per_client && !drop_idle_session(record)) {
    return std::unexpected(Status::NFS4ERR_NOSPC);
  }
  const std::size_t affordable =
      bytes_left(record) / std::max<std::size_t>(options_.max_cached_bytes, 1);
  if (affordable == 0) return std::unexpected(Status::NFS4ERR_NOSPC);
  ServerSession::Limits limits;
  limits.slots = static_cast<std::uint32_t>(std::min<std::size_t>(
      std::clamp<std::uint32_t>(args.fore.max_requests, 1, options_.max_slots), affordable));
  limits.max_request = std::min(args.fore.max_request, options_.max_request_bytes);
  limits.max_response = std::min(args.fore.max_response, options_.max_response_bytes);
  limits.max_response_cached = std::min(args.fore.max_response_cached, options_.max_cached_bytes);
  limits.max_operations =
      std::clamp<std::uint32_t>(args.fore.max_operations, 1, options_.max_operations);
  limits.max_kept = options_.max_cached_bytes;

  auto session = std::make_shared<ServerSession>(new_session_id(), record.client, limits);
  promise(record, limits.slots * limits.max_kept);
  record.sessions.push_back(session);
  sessions_[session->id()] = session;

  nfs4::CreateSessionOk ok;
  ok.session = session->id();
  ok.sequence = args.sequence;
  ok.flags = 0;  // nothing persistent, no backchannel
  ok.fore = {.header_pad = 0,
             .max_request = limits.max_request,
             .max_response = limits.max_response,
             .max_response_cached = limits.max_response_cached,
             .max_operations = limits.max_operations,
             .max_requests = limits.slots,
             .rdma_ird = args.fore.rdma_ird};
  ok.back = args.back;
  ok.back.rdma_ird.reset();
  return ok;
}

void ClientTable::confirm(Record& record) {
  const std::string owner = record.owner;
  const nfs4::ClientId id = record.client->info.id;
  record.confirmed = true;
  if (record.client->info.server) record.client->has_right.store(true);
  unconfirmed_.erase(owner);
  // The client restarted: what its life before left behind goes now.
  if (const auto old = confirmed_.find(owner); old != confirmed_.end()) drop_record(old->second);
  confirmed_[owner] = id;
}

Status ClientTable::destroy_session(const nfs4::SessionId& id) {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return Status::NFS4ERR_BADSESSION;
  const std::shared_ptr<ServerSession> session = found->second;
  Record& record = records_.at(session->client().info.id);
  record.sessions.remove(session);
  drop_session(record, session);
  return Status::NFS4_OK;
}

Status ClientTable::destroy_client(nfs4::ClientId id) {
  const MutexLock lock(mutex_);
  const auto found = records_.find(id);
  if (found == records_.end()) return Status::NFS4ERR_STALE_CLIENTID;
  if (!found->second.sessions.empty()) return Status::NFS4ERR_CLIENTID_BUSY;
  drop_record(id);
  return Status::NFS4_OK;
}

OrStatus<nfs4::BindConnOk> ClientTable::bind(const nfs4::BindConnArgs& args) {
  const auto session = find(args.session);
  if (session == nullptr) return std::unexpected(Status::NFS4ERR_BADSESSION);
  // There is no backchannel, so a connection for nothing else cannot be had.
  if (args.direction != nfs4::BindDirection::FORE &&
      args.direction != nfs4::BindDirection::FORE_OR_BOTH) {
    return std::unexpected(Status::NFS4ERR_INVAL);
  }
  if (!renew(session->client())) return std::unexpected(Status::NFS4ERR_BADSESSION);
  return nfs4::BindConnOk{.session = args.session, .direction = 1, .rdma = false};
}

std::shared_ptr<ServerSession> ClientTable::find(const nfs4::SessionId& id) const {
  const MutexLock lock(mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

bool ClientTable::renew(ServerClient& client) const {
  return client.renew(clock_.now().time_since_epoch().count());
}

std::size_t ClientTable::expire() {
  const MutexLock lock(mutex_);
  return drop_keyless() + drop_expired();
}

std::size_t ClientTable::keys_changed(std::span<const std::uint64_t> accepted) {
  const MutexLock lock(mutex_);
  accepted_.emplace(accepted.begin(), accepted.end());
  std::size_t dropped = 0;
  for (const auto& [id, record] : records_) {
    if (record.key == 0 || accepts(record.key)) continue;
    // For good, also when the key is accepted again while something of it runs.
    if (!record.client->key_dropped.exchange(true)) ++dropped;
  }
  keyless_ = keyless_ || dropped > 0;
  static_cast<void>(drop_keyless());
  return dropped;
}

bool ClientTable::accepts(std::uint64_t key) const {
  if (key == 0) return false;
  return !accepted_ || std::ranges::find(*accepted_, key) != accepted_->end();
}

std::size_t ClientTable::drop_keyless() {
  if (!std::exchange(keyless_, false)) return 0;
  std::vector<nfs4::ClientId> gone;
  for (const auto& [id, record] : records_) {
    if (!record.client->key_dropped.load()) continue;
    const std::int64_t renewed = record.client->renewed_ns.load(std::memory_order_acquire);
    // As for a lease: what came before it was looked whether something runs has renewed it since.
    if (!is_busy(record) && record.client->end(renewed)) {
      gone.push_back(id);
    } else {
      keyless_ = true;
    }
  }
  for (const nfs4::ClientId id : gone) drop_record(id);
  return gone.size();
}

// A lease only gets longer, and a new one is as long as any: so nobody's ends before that of
// whoever was silent for longest at the last look.
std::size_t ClientTable::drop_expired() {
  const Nanoseconds now = clock_.now().time_since_epoch();
  if (now <= none_until_) return 0;
  std::vector<nfs4::ClientId> gone;
  Nanoseconds oldest = now;
  for (const auto& [id, record] : records_) {
    if (end_if_expired(record)) {
      gone.push_back(id);
    } else {
      oldest = std::min(oldest, Nanoseconds(record.client->renewed_ns.load()));
    }
  }
  none_until_ = std::max<Nanoseconds>(oldest + options_.lease, now + kBetweenLooks);
  for (const nfs4::ClientId id : gone) drop_record(id);
  return gone.size();
}

std::size_t ClientTable::clients() const {
  const MutexLock lock(mutex_);
  return records_.size();
}

std::size_t ClientTable::sessions() const {
  const MutexLock lock(mutex_);
  return sessions_.size();
}

ClientTable::Record* ClientTable::owner_record(const std::string& owner, bool confirmed) {
  const auto& index = confirmed ? confirmed_ : unconfirmed_;
  const auto found = index.find(owner);
  return found == index.end() ? nullptr : &records_.at(found->second);
}

bool ClientTable::is_busy(const Record& record) {
  return std::ranges::any_of(record.sessions, [](const auto& session) { return session->busy(); });
}

std::optional<std::int64_t> ClientTable::expired(const Record& record) const {
  const std::int64_t renewed = record.client->renewed_ns.load(std::memory_order_acquire);
  if (clock_.now().time_since_epoch() - Nanoseconds(renewed) <= options_.lease) return {};
  if (is_busy(record)) return {};
  return renewed;
}

// What ran, or came, before it was looked whether something runs has renewed the lease since.
bool ClientTable::end_if_expired(const Record& record) {
  const auto renewed = expired(record);
  return renewed && record.client->end(*renewed);
}

bool ClientTable::has_room(bool server, const std::string& host) const {
  if ((server ? servers_ : clients_).clients >= options_.max_clients) return false;
  const auto found = hosts_.find(host);
  return found == hosts_.end() || found->second.clients < options_.max_clients_per_host;
}

std::size_t ClientTable::bytes_left(const Record& record) const {
  const std::size_t all = options_.max_cached_total_bytes;
  const bool server = record.client->info.server;
  std::size_t left = all - std::min((server ? servers_ : clients_).promised_bytes, all);
  if (const auto host = hosts_.find(record.host); host != hosts_.end()) {
    left = std::min(left, all / 2 - std::min(host->second.promised_bytes, all / 2));
  }
  return left;
}

void ClientTable::promise(const Record& record, std::size_t bytes) {
  use_of(record.client->info.server).promised_bytes += bytes;
  if (!record.host.empty()) hosts_.at(record.host).promised_bytes += bytes;
}

void ClientTable::take_back(const Record& record, std::size_t bytes) {
  use_of(record.client->info.server).promised_bytes -= bytes;
  if (!record.host.empty()) hosts_.at(record.host).promised_bytes -= bytes;
}

bool ClientTable::make_room(bool server, const std::string& host) {
  if (drop_expired() > 0) return true;
  const auto own = hosts_.find(host);
  const bool of_host = own != hosts_.end() && own->second.clients >= options_.max_clients_per_host;
  const Record* victim = oldest_newcomer(of_host ? own->second : use_of(server));
  if (victim == nullptr) return false;
  drop_record(victim->client->info.id);
  return true;
}

const ClientTable::Record* ClientTable::oldest_newcomer(Use& use) {
  for (auto at = use.newcomers.begin(); at != use.newcomers.end();) {
    Record& oldest = records_.at(*at++);
    if (oldest.client->has_right.load()) {
      is_no_newcomer(oldest);
    } else if (!is_busy(oldest)) {
      return &oldest;
    }
  }
  return nullptr;
}

void ClientTable::is_no_newcomer(Record& record) {
  if (!record.newcomer) return;
  use_of(record.client->info.server).newcomers.erase(record.newcomer->of_all);
  if (!record.host.empty()) hosts_.at(record.host).newcomers.erase(record.newcomer->of_host);
  record.newcomer.reset();
}

bool ClientTable::drop_idle_session(Record& record) {
  for (const auto& session : record.sessions) {
    // Only the table knows it: no connection uses it and no request runs under it.
    if (session.use_count() > 2) continue;
    const std::shared_ptr<ServerSession> victim = session;
    record.sessions.remove(victim);
    drop_session(record, victim);
    return true;
  }
  return false;
}

void ClientTable::drop_session(const Record& record,
                               const std::shared_ptr<ServerSession>& session) {
  session->kill();
  take_back(record, session->limits().slots * session->limits().max_kept);
  sessions_.erase(session->id());
}

void ClientTable::drop_record(nfs4::ClientId id) {
  auto node = records_.extract(id);
  WEFT_ASSERT(!node.empty());
  Record& record = node.mapped();
  record.client->end();  // what has its slot, and has not renewed yet, is not carried out
  for (const auto& session : record.sessions) drop_session(record, session);
  is_no_newcomer(record);
  --use_of(record.client->info.server).clients;
  if (const auto host = hosts_.find(record.host);
      host != hosts_.end() && --host->second.clients == 0) {
    hosts_.erase(host);
  }
  auto& index = record.confirmed ? confirmed_ : unconfirmed_;
  const auto named = index.find(record.owner);
  if (named != index.end() && named->second == id) index.erase(named);
}

nfs4::SessionId ClientTable::new_session_id() {
  nfs4::SessionId id;
  random_.fill(id);  // nobody can guess another's, as DESTROY_SESSION asks for nothing else
  return id;
}

}  // namespace weft::rpc
