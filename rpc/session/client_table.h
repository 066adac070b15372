// The clients and sessions of a server: EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION,
// DESTROY_CLIENTID, BIND_CONN_TO_SESSION (RFC 8881 sections 18.34 to 18.37 and 18.50). Sans-io.
//
// A client is known by its owner string. Its record is unconfirmed until the first CREATE_SESSION;
// an owner has at most one confirmed and one unconfirmed record. A confirmed owner that comes with
// another verifier has restarted: it gets a new, unconfirmed client id, and the old one goes when
// the new one is confirmed. CREATE_SESSION has a reply cache of one per client id.
//
// A client is in touch while a request of it is carried out, and its lease counts from the end of
// that: without its session the same request would be carried out once more in another, and an old
// WRITE that a disk held back would land on a newer one. A request that comes while its client's
// lease ends either renews the lease or is not carried out.
//
// Bounds: clients, sessions per client, and the bytes promised for kept replies; of clients and of
// bytes one host has a part. When the client table, or the host's part of it, is full, expired
// records make room, and then the oldest of those that have shown no right
// (ServerClient::has_right): anybody may ask for a place, and who means it shows its right soon, so
// only those that did keep theirs. If none can make room, NFS4ERR_DELAY. A client without a right
// has one session, and no state that would keep its name for it. Servers of the system are counted
// apart, so that clients cannot take their places. No call but those that find that a lease may
// have ended looks at all clients, and such a one does so once a second at most.
//
// A server is one as long as the key is accepted that its record began with. When that was dropped
// nothing of it is begun any more, and what runs ends: then the record goes, and the server comes
// anew with a key that is accepted. Another EXCHANGE_ID by another key changes nothing of a record:
// who has the first key may have made sessions of it.
//
// Threading: any thread; one mutex. None of this is on the data path: connections keep what
// find() gave them, and learn from ServerSession::dead() that it is gone.
#pragma once

#include <expected>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"
#include "rpc/nfs4/session_ops.h"
#include "rpc/session/server_options.h"
#include "rpc/session/server_session.h"

namespace weft::rpc {

template <class T>
using OrStatus = std::expected<T, nfs4::Status>;

class ClientTable {
 public:
  ClientTable(const SessionServerOptions& options, Clock& clock, Random& random);
  ClientTable(const ClientTable&) = delete;
  ClientTable& operator=(const ClientTable&) = delete;

  // `principal` names whom the credential claims to be ("sys:0"); `host` is where it comes from,
  // and nobody's when it is empty. Who comes by RDMA is another client, of a server of another
  // name: Linux takes two addresses of one server for two ways to it, and would stay with the
  // transport that it came by first. A server is one client however it comes.
  [[nodiscard]] OrStatus<nfs4::ExchangeIdOk> exchange_id(const nfs4::ExchangeIdArgs& args,
                                                         const std::string& principal,
                                                         const std::string& host = {},
                                                         bool by_rdma = false);
  [[nodiscard]] OrStatus<nfs4::CreateSessionOk> create_session(const nfs4::CreateSessionArgs& args,
                                                               const std::string& principal);
  [[nodiscard]] nfs4::Status destroy_session(const nfs4::SessionId& id);
  [[nodiscard]] nfs4::Status destroy_client(nfs4::ClientId id);
  [[nodiscard]] OrStatus<nfs4::BindConnOk> bind(const nfs4::BindConnArgs& args);

  // nullptr when there is no such session.
  [[nodiscard]] std::shared_ptr<ServerSession> find(const nfs4::SessionId& id) const;
  // Marks a sign of life: a request came and has its slot, or ends, before its slot is free. False:
  // the client is gone, and a request that came is not carried out. No lock.
  [[nodiscard]] bool renew(ServerClient& client) const;
  // Drops clients whose lease ran out, or whose key was dropped, and of which nothing runs; returns
  // how many. Looks for leases when one may have run out, and once a second at most.
  std::size_t expire();
  // These keys are accepted from now on, by fingerprint. Servers that showed another one go: idle
  // ones at once, the others by expire(). Returns how many there are.
  std::size_t keys_changed(std::span<const std::uint64_t> accepted);

  [[nodiscard]] std::size_t clients() const;
  [[nodiscard]] std::size_t sessions() const;

 private:
  // Those that had shown no right when that was looked at last, the oldest first.
  using Newcomers = std::list<nfs4::ClientId>;
  // What clients, or servers, or those of one host have.
  struct Use {
    std::size_t clients = 0;
    std::size_t promised_bytes = 0;  // for kept replies
    Newcomers newcomers;
  };
  struct AsNewcomer {
    Newcomers::iterator of_all;
    Newcomers::iterator of_host;  // if it is counted for one
  };
  struct Origin {
    std::string principal;
    std::string host;       // empty: counted for none
    std::uint64_t key = 0;  // as Record's
    bool by_rdma = false;
  };
  struct Record {
    std::shared_ptr<ServerClient> client;
    std::string host;       // empty: counted for none
    std::string owner;      // as its index has it
    std::uint64_t key = 0;  // fingerprint of the one that it showed; 0: it is no server
    nfs4::Verifier verifier = 0;
    bool by_rdma = false;
    bool confirmed = false;
    std::optional<AsNewcomer> newcomer;
    std::uint32_t create_sequence = 0;  // the last CREATE_SESSION answered
    OrStatus<nfs4::CreateSessionOk> create_result =
        std::unexpected(nfs4::Status::NFS4ERR_SEQ_MISORDERED);
    std::list<std::shared_ptr<ServerSession>> sessions;  // oldest first
  };
  struct IdHash {
    std::size_t operator()(const nfs4::SessionId& id) const;
  };
  using Records = std::unordered_map<nfs4::ClientId, Record>;

  [[nodiscard]] Record* owner_record(const std::string& owner, bool confirmed)
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] OrStatus<nfs4::ExchangeIdOk> update(Record* confirmed,
                                                    const nfs4::ExchangeIdArgs& args,
                                                    const std::string& principal)
      WEFT_REQUIRES(mutex_);
  [[nodiscard]] OrStatus<Record*> add_record(const nfs4::ExchangeIdArgs& args, std::string owner,
                                             const Origin& origin) WEFT_REQUIRES(mutex_);
  [[nodiscard]] nfs4::ExchangeIdOk describe(const Record& record) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] OrStatus<nfs4::CreateSessionOk> make_session(Record& record,
                                                             const nfs4::CreateSessionArgs& args)
      WEFT_REQUIRES(mutex_);
  void confirm(Record& record) WEFT_REQUIRES(mutex_);
  std::size_t drop_expired() WEFT_REQUIRES(mutex_);
  // Those whose key was dropped, and of which nothing runs.
  std::size_t drop_keyless() WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool accepts(std::uint64_t key) const WEFT_REQUIRES(mutex_);
  // Null: each has shown a right.
  [[nodiscard]] const Record* oldest_newcomer(Use& use) WEFT_REQUIRES(mutex_);
  void is_no_newcomer(Record& record) WEFT_REQUIRES(mutex_);
  // For one more client or server; for one of the host's, unless that is empty.
  [[nodiscard]] bool make_room(bool server, const std::string& host) WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool has_room(bool server, const std::string& host) const WEFT_REQUIRES(mutex_);
  // Bytes that may still be promised to it.
  [[nodiscard]] std::size_t bytes_left(const Record& record) const WEFT_REQUIRES(mutex_);
  [[nodiscard]] Use& use_of(bool server) WEFT_REQUIRES(mutex_) {
    return server ? servers_ : clients_;
  }
  [[nodiscard]] static bool is_busy(const Record& record);  // a request of it runs
  // Nanoseconds of the last sign of life, if that is longer ago than a lease lasts and no request
  // runs.
  [[nodiscard]] std::optional<std::int64_t> expired(const Record& record) const
      WEFT_REQUIRES(mutex_);
  // Ends its lease if that ran out; the record is to be dropped then.
  [[nodiscard]] bool end_if_expired(const Record& record) WEFT_REQUIRES(mutex_);
  [[nodiscard]] bool drop_idle_session(Record& record) WEFT_REQUIRES(mutex_);
  void drop_session(const Record& record, const std::shared_ptr<ServerSession>& session)
      WEFT_REQUIRES(mutex_);
  void promise(const Record& record, std::size_t bytes) WEFT_REQUIRES(mutex_);
  void take_back(const Record& record, std::size_t bytes) WEFT_REQUIRES(mutex_);
  void drop_record(nfs4::ClientId id) WEFT_REQUIRES(mutex_);
  [[nodiscard]] nfs4::SessionId new_session_id() WEFT_REQUIRES(mutex_);

  const SessionServerOptions options_;
  Clock& clock_;
  Random& random_ WEFT_GUARDED_BY(mutex_);

  mutable Mutex mutex_;
  Records records_ WEFT_GUARDED_BY(mutex_);
  std::map<std::string, nfs4::ClientId> confirmed_ WEFT_GUARDED_BY(mutex_);    // by owner
  std::map<std::string, nfs4::ClientId> unconfirmed_ WEFT_GUARDED_BY(mutex_);  // by owner
  std::unordered_map<nfs4::SessionId, std::shared_ptr<ServerSession>, IdHash> sessions_
      WEFT_GUARDED_BY(mutex_);
  Use clients_ WEFT_GUARDED_BY(mutex_);
  Use servers_ WEFT_GUARDED_BY(mutex_);
  std::map<std::string, Use> hosts_ WEFT_GUARDED_BY(mutex_);  // of clients
  Nanoseconds none_until_ WEFT_GUARDED_BY(mutex_){};          // no lease ends before, or at, that
  // As keys_changed() was told; nullopt: never, and what server_key() knows is accepted.
  std::optional<std::vector<std::uint64_t>> accepted_ WEFT_GUARDED_BY(mutex_);
  bool keyless_ WEFT_GUARDED_BY(mutex_) = false;  // there may be clients whose key was dropped
};

}  // namespace weft::rpc
