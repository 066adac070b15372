// What an administrator asks of the metadata server: a struct for each request, and the table of
// what answers which.
//
//   struct Drain {
//     static constexpr const char* kName = "drain";
//     static constexpr bool kChanges = true;
//     using Reply = MaintenanceReport;
//     std::string server;
//   };
//
// A request is described (rpc/xdr/describe.h), and so is its reply. The metadata server has a
// handler for it in its Table (server/admin_reports.cc), `weft` gives it to Client::ask(). Nothing
// else has to know of it. Who only asks does not wait for what changes something (admin/server.h).
//
// Paths are absolute, as clients see them: an export's Pseudo path and what is below it. A data
// server is named by its id or its name.
//
// Threading: a Table is filled by one thread, and then answers on any, as its handlers do.
#pragma once

#include <algorithm>
#include <any>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ganesha-fsal/admin/backup_reports.h"
#include "ganesha-fsal/admin/client_reports.h"
#include "ganesha-fsal/admin/config_reports.h"
#include "ganesha-fsal/admin/event_reports.h"
#include "ganesha-fsal/admin/key_reports.h"
#include "ganesha-fsal/admin/path_reports.h"
#include "ganesha-fsal/admin/segment_reports.h"
#include "ganesha-fsal/admin/source.h"
#include "rpc/base/assert.h"
#include "rpc/base/error.h"
#include "rpc/xdr/describe_json.h"

namespace weft::mds::admin {

constexpr std::size_t kMaxPathBytes = 4096;
constexpr std::size_t kMaxTextBytes = 512;

template <class R>
concept Request = requires {
  { R::kName } -> std::convertible_to<const char*>;
  { R::kChanges } -> std::convertible_to<bool>;
  typename R::Reply;
};

// A text of a request: none has a zero byte.
template <class Io>
void describe_text(Io& io, const char* name, std::string& text, std::size_t most) {
  io(name, text, at_most(most));
  io.check(!text.contains('\0'));
}

// The forms that several have.
struct Name {
  template <std::size_t N>
  consteval Name(const char (&of)[N]) {
    std::copy_n(of, N, text);
  }
  char text[24] = {};
};
template <Name kOf, bool kChange, class Answer>
struct Plain {
  static constexpr const char* kName = kOf.text;
  static constexpr bool kChanges = kChange;
  using Reply = Answer;
};
template <class Io, Name kOf, bool kChange, class Answer>
void describe(Io&, Plain<kOf, kChange, Answer>&) {}

template <Name kOf, class Answer>
struct OfPath {
  static constexpr const char* kName = kOf.text;
  static constexpr bool kChanges = false;
  using Reply = Answer;
  std::string path;
};
template <class Io, Name kOf, class Answer>
void describe(Io& io, OfPath<kOf, Answer>& r) {
  describe_text(io, "path", r.path, kMaxPathBytes);
}

template <Name kOf>
struct OfServer {
  static constexpr const char* kName = kOf.text;
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  std::string server;
};
template <class Io, Name kOf>
void describe(Io& io, OfServer<kOf>& r) {
  describe_text(io, "server", r.server, kMaxTextBytes);
}

// --- How things are

struct DataServersReport {
  std::vector<DataServerReport> data_servers;
};
template <class Io>
void describe(Io& io, DataServersReport& r) {
  io("data_servers", r.data_servers, cut_at(kLongList));
}

using GetStatus = Plain<"status", false, SystemReport>;
// Every data server ever registered and not removed, by id.
using GetDataServers = Plain<"data-servers", false, DataServersReport>;
// kNotFound; kWrongType: no regular file; kInvalid: in no export of ours.
using GetFile = OfPath<"file", FileReport>;
// What holds at a directory or regular file; errors as above.
using GetPolicy = OfPath<"policy", PolicyReport>;

// Which cluster keys servers have. It waits for data servers: apart from what only asks.
using GetKeys = Plain<"keys", true, KeysReport>;
// What data servers' segments do. It waits for them, too.
using GetSegments = Plain<"segments", true, SegmentsReport>;

// Whether data servers reach each other: each connects to the addresses of all others that are
// connected. It waits for them, too: some seconds when a firewall is silent.
using GetPaths = Plain<"paths", true, PathsReport>;

// Who has a lease. It looks at all layouts: apart from what only asks.
using GetClients = Plain<"clients", true, ClientsReport>;
// The options that hold here.
using GetConfig = Plain<"config", false, ConfigReport>;
// Those that hold at data servers. It waits for them: apart from what only asks. kNotFound.
struct GetServerOptions {
  static constexpr const char* kName = "server-options";
  static constexpr bool kChanges = true;
  using Reply = ServersOptionsReport;
  std::string server;  // empty: all
};
template <class Io>
void describe(Io& io, GetServerOptions& r) {
  describe_text(io, "server", r.server, kMaxTextBytes);
}
// Targets of data servers, their versions and options; as GetServerOptions.
struct GetTargets {
  static constexpr const char* kName = "targets";
  static constexpr bool kChanges = true;
  using Reply = TargetsReport;
  std::string server;  // a data server; empty: of all
};
template <class Io>
void describe(Io& io, GetTargets& r) {
  describe_text(io, "server", r.server, kMaxTextBytes);
}
// What happened after the event of this number; 0: all that is remembered.
struct GetEvents {
  static constexpr const char* kName = "events";
  static constexpr bool kChanges = false;
  using Reply = EventsReport;
  std::uint64_t after = 0;
};
template <class Io>
void describe(Io& io, GetEvents& r) {
  io("after", r.after);
}

// --- Policies of directories

// Replaces a directory's own policy; empty: clears it. kInvalid naming the key that is wrong.
struct SetPolicy {
  static constexpr const char* kName = "set-policy";
  static constexpr bool kChanges = true;
  using Reply = PolicyReport;
  std::string path;
  std::string policy;
};
template <class Io>
void describe(Io& io, SetPolicy& r) {
  describe_text(io, "path", r.path, kMaxPathBytes);
  describe_text(io, "policy", r.policy, kMaxTextBytes);
}

// Gives a directory these keys; those of its own that are not named stay. kInvalid as above.
struct ChangePolicy {
  static constexpr const char* kName = "change-policy";
  static constexpr bool kChanges = true;
  using Reply = PolicyReport;
  std::string path;
  std::string keys;
};
template <class Io>
void describe(Io& io, ChangePolicy& r) {
  describe_text(io, "path", r.path, kMaxPathBytes);
  describe_text(io, "keys", r.keys, kMaxTextBytes);
}

// --- What is done with data servers: kNotFound: there is no such one; kInvalid: it cannot be done,
// and what to do instead.

// Nothing new is put on it, and what it has is moved elsewhere; or it serves as before.
using Drain = OfServer<"drain">;
using Undrain = OfServer<"undrain">;
// One that is drained, or gone for good, is forgotten.
using Remove = OfServer<"remove">;
// One that is refused because its store is in an older state is used as it is.
using Accept = OfServer<"accept">;

// A target of its parity group is lost for ever.
struct GiveUp {
  static constexpr const char* kName = "give-up";
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  std::string server;
  std::uint32_t target = 0;
};
template <class Io>
void describe(Io& io, GiveUp& r) {
  describe_text(io, "server", r.server, kMaxTextBytes);
  io("target", r.target);
}

// --- What runs by itself once it is begun: kBusy: it runs already.

// `percent`: how far apart servers may be.
struct Rebalance {
  static constexpr const char* kName = "rebalance";
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  std::uint32_t percent = 5;
  bool only_tell = false;
};
template <class Io>
void describe(Io& io, Rebalance& r) {
  io("percent", r.percent);
  io("only_tell", r.only_tell);
}
using StopRebalance = Plain<"rebalance-stop", true, MaintenanceReport>;

// Of all files, or of one.
struct Scrub {
  static constexpr const char* kName = "scrub";
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  std::string path;  // empty: all
  bool only_tell = false;
};
template <class Io>
void describe(Io& io, Scrub& r) {
  describe_text(io, "path", r.path, kMaxPathBytes);
  io("only_tell", r.only_tell);
}
using StopScrub = Plain<"scrub-stop", true, MaintenanceReport>;
// The copies of a file that differ become equal to a data server's.
struct ResolveScrub {
  static constexpr const char* kName = "scrub-resolve";
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  std::string file;    // its path, or its number
  std::string server;  // whose copies are right
};
template <class Io>
void describe(Io& io, ResolveScrub& r) {
  describe_text(io, "file", r.file, kMaxPathBytes);
  describe_text(io, "server", r.server, kMaxTextBytes);
}

struct Audit {
  static constexpr const char* kName = "audit";
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  bool only_tell = false;
  bool remove_strays = false;  // of a store that came back from a backup, too
};
template <class Io>
void describe(Io& io, Audit& r) {
  io("only_tell", r.only_tell);
  io("remove_strays", r.remove_strays);
}
using StopAudit = Plain<"audit-stop", true, MaintenanceReport>;
using GetAudit = Plain<"audit-status", false, MaintenanceReport>;

// --- Backups (server/backups.h): weft backup copies the files of a checkpoint.

// kBusy: somebody copies one. kNoSpace: the store is full.
using BeginBackup = Plain<"backup-begin", true, CheckpointReport>;
// Success: the checkpoint was there until now, and goes. kNoSpace, kStale: it had gone before, so
// that its copy may lack something.
struct EndBackup {
  static constexpr const char* kName = "backup-end";
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  std::string checkpoint;  // its id; empty: a `weft` that knows none, and any that nobody copies
};
template <class Io>
void describe(Io& io, EndBackup& r) {
  io("checkpoint", r.checkpoint, newer(at_most(kMaxTextBytes)));
  io.check(!r.checkpoint.contains('\0'));
}

// Of a store that came back from a backup. It goes through all names: apart from what only asks.
using GetRestored = Plain<"restored-status", true, RestoredReport>;
// A damaged file is served as it is; empty: all that are damaged.
struct AcceptRestored {
  static constexpr const char* kName = "restored-accept";
  static constexpr bool kChanges = true;
  using Reply = MaintenanceReport;
  std::string file;  // its path, or its number
};
template <class Io>
void describe(Io& io, AcceptRestored& r) {
  describe_text(io, "file", r.file, kMaxPathBytes);
}

class Table {
 public:
  template <Request R>
  using Handler = std::function<Result<typename R::Reply>(const R&)>;

  // Requires: R has no handler yet.
  template <Request R>
  void on(Handler<R> handler) {
    Entry entry{.changes = R::kChanges, .typed = handler, .serve = {}};
    entry.serve = [handler = std::move(handler)](const Json& message) -> Result<Json> {
      auto request = from_json<R>(message, "admin request");
      if (!request) return pass(request);
      auto reply = handler(*request);
      if (!reply) return pass(reply);
      return to_json(*reply);
    };
    const bool added = entries_.emplace(R::kName, std::move(entry)).second;
    WEFT_ASSERT(added);
  }
  // Within the process. Requires: R has a handler.
  template <Request R>
  [[nodiscard]] Result<typename R::Reply> ask(const R& request) const {
    return std::any_cast<const Handler<R>&>(entries_.at(R::kName).typed)(request);
  }
  // `message` has the request's fields. kNotSupported: no such request; kProtocol: malformed.
  [[nodiscard]] Result<Json> serve(const std::string& name, const Json& message) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return fail(Errc::kNotSupported, "no such request: " + name);
    return found->second.serve(message);
  }
  [[nodiscard]] bool changes(const std::string& name) const {
    const auto found = entries_.find(name);
    return found != entries_.end() && found->second.changes;
  }

 private:
  struct Entry {
    bool changes = false;
    std::any typed;  // Handler<R>
    std::function<Result<Json>(const Json&)> serve;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace weft::mds::admin
