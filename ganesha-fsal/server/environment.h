// What the metadata server needs of the world around it: the NFS protocol's side (NFS-Ganesha in
// libfsalweft.so, the test in tests), time, and randomness.
//
// Threading: the server calls all of it from any thread, while it starts too. The functions may
// take locks for a moment and must not call the server back.
//
// Ownership: what is referred to outlives the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "ganesha-fsal/admin/config_reports.h"
#include "ganesha-fsal/files/layout_service.h"
#include "ganesha-fsal/meta/ops/namespace.h"
#include "ganesha-fsal/server/events.h"
#include "layout/placement.h"
#include "rpc/base/clock.h"

namespace weft::mds {

// Where a client's path leads: into which export, and where below the directory that it exports.
struct PathInExport {
  std::uint16_t export_id = 0;
  std::string path;                // "/a" for "/export/a" when "/export" is the pseudo path
  std::string pseudo_path;         // without a '/' at its end
  FileId root = kRootFileId;       // the directory that is exported
  layout::PlacementPolicy policy;  // the export's options
};

// An NFSv4 client that has a lease.
struct NfsClient {
  std::string address;  // that its EXCHANGE_ID or SETCLIENTID came from; empty: not known
  std::string owner;    // what it called itself there, for people
  std::uint32_t minor_version = 0;
  std::uint64_t opens = 0;
  std::chrono::seconds renewed{0};  // so long ago its lease was; 0 while it asks for something
};
// "192.0.2.7 (Linux NFSv4.2 node7)".
[[nodiscard]] inline std::string to_string(const NfsClient& client) {
  return client.address.empty() ? client.owner : client.address + " (" + client.owner + ")";
}

// How many there are, and how many there may be; 0: any number.
struct NfsPlaces {
  std::uint64_t clients = 0;
  std::uint64_t most_clients = 0;
  std::uint64_t sessions = 0;
  std::uint64_t most_sessions = 0;
};

struct Environment {
  weft::Clock& clock;
  weft::Random& random;

  // --- of NFSv4 clients ---
  std::chrono::seconds lease{60};
  std::chrono::seconds grace{90};
  // How long clients may still reclaim what they had before a restart, if nothing ends that sooner;
  // 0: no more. It may begin anew.
  std::function<std::chrono::milliseconds()> grace_left;
  // Who has a lease.
  std::function<std::map<ClientId, NfsClient>()> clients;
  // The errno for which the last new client was refused, since its record for a restart could not
  // be written; 0: it was not.
  std::function<int()> client_refused = [] { return 0; };
  // While all places are taken newcomers wait.
  std::function<NfsPlaces()> places = [] { return NfsPlaces{}; };
  // Whether the file is open by that client; by anybody.
  std::function<bool(FileId, std::optional<ClientId>)> is_open;
  Recaller& recaller;
  // What is cached of the file's attributes is no longer true.
  std::function<void(FileId)> invalidate_attributes;

  // --- of exports ---
  std::function<std::optional<PathInExport>(std::string_view path)> find_path;
  // How many copies of new files the exports ask for.
  std::function<std::set<std::uint32_t>()> copies = [] { return std::set<std::uint32_t>{}; };
  // The options that hold, for people.
  std::function<ConfigReport()> config = [] { return ConfigReport{}; };
  std::uint8_t fsal_id = 0;  // byte 0 of device ids

  // What is remembered of the log; null: nothing.
  Events* events = nullptr;
};

}  // namespace weft::mds
