// Which layouts clients keep when they close the file, so that the sessions with data servers
// outlive it.
//
// A Linux client forgets a device with the last layout that names it, and ends its sessions with
// the device's data servers. If all layouts ended with the file, a client that goes through small
// files would make new sessions for each. So a layout is granted to be kept (without
// return_on_close) when it names a data server that no layout names which the client keeps already.
// With files striped over all data servers that is one layout of one file.
//
// What is kept ends so:
//   returned  by the client: it forgets the file, removes it, unmounts, or was recalled.
//   recalled  when it is as old as Limits::time. One half as old counts no more, so that a client
//             that goes on has its successor, and sessions, by then; one that does not, keeps
//             nothing.
//   asked for as soon as a data server it names is away, by CB_RECALL_ANY for whatever the client
//             does not use. A Linux client that forgets a data server which is dead waits minutes
//             for the end of its session: in umount or unlink if that is what ends the layout, in
//             the thread that serves callbacks if a recall of the file does, where no callback is
//             served meanwhile, but unseen in the background after CB_RECALL_ANY. What has not come
//             back a moment later is recalled.
// Nothing is kept by a client that has not answered such a request with NFS4_OK before: it is asked
// first when it could keep something.
//
// Layouts and clients are in the order in which they are due, so that due() looks at those that
// are, and at no others; but when a data server has become one that is away, which is seldom, at
// all layouts that are kept.
//
// Threading: needs external synchronisation; LayoutService has it. Times are the owner's clock.
//
// Invariants:
//  1. Of a file a client keeps all its layouts or none: they share a stateid, and end together.
//  2. A client keeps at most Limits::per_client files, all clients at most Limits::in_all.
//  3. Every layout that is kept is in recalls_ once, at its recall_at; every client is in looks_ at
//     most once, at the time that its record alone says (look_at()).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ganesha-fsal/files/grants.h"

namespace weft::mds {

class KeptLayouts {
 public:
  struct Limits {
    std::size_t per_client = 64;  // files; 0: nothing is kept
    std::size_t in_all = 16384;
    std::size_t recalls_at_once = 64;
    Clock::duration time = std::chrono::seconds(60);
    Clock::duration ask_again = std::chrono::seconds(5);
    Clock::duration forget = std::chrono::minutes(10);  // a client that keeps nothing
  };

  explicit KeptLayouts(Limits limits) : limits_(limits) {}

  // The client is given its first layout of the file, which names these data servers, all of which
  // are here. Whether it is to keep it.
  [[nodiscard]] bool add(FileId file, ClientId client, std::span<const std::uint32_t> ds_ids,
                         Clock::time_point now);
  // The client holds no layout of the file any more.
  void remove(FileId file, ClientId client);
  [[nodiscard]] bool has(FileId file, ClientId client) const;
  [[nodiscard]] std::size_t size() const { return size_; }

  struct Due {
    std::vector<ClientId> asked;                        // to be asked for what they do not use
    std::vector<std::pair<FileId, ClientId>> recalled;  // unless the client uses the file
  };
  // What is to be done now, `away` being data servers that are not here. Each comes again after a
  // while if it is still to be done.
  [[nodiscard]] Due due(Clock::time_point now, const std::set<std::uint32_t>& away);
  // Whether the client understood what it was asked for.
  void answered(ClientId client, bool understood);

 private:
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  struct Kept {
    std::vector<std::uint32_t> ds_ids;
    Clock::time_point since;
    Clock::time_point recall_at;
  };
  struct Client {
    std::map<FileId, Kept> files;
    std::optional<bool> understands;
    bool lost = false;       // a data server that a file of its names may be away
    Clock::time_point seen;  // when it asked for a layout last
    std::optional<Clock::time_point> asked_at;
    Clock::time_point indexed = kNever;  // where it is in looks_
  };
  using Clients = std::map<ClientId, Client>;
  struct Recall {
    Clock::time_point at;
    ClientId client = 0;
    FileId file = 0;
    auto operator<=>(const Recall&) const = default;
  };

  [[nodiscard]] bool covered(const Client& client, std::span<const std::uint32_t> ds_ids,
                             Clock::time_point now) const;
  [[nodiscard]] static bool names_any(const Kept& kept, const std::set<std::uint32_t>& away);
  // When the client is to be asked, or forgotten.
  [[nodiscard]] Clock::time_point look_at(const Client& client) const;
  // After any change of what look_at() goes by.
  void index(Clients::value_type& of);
  void recall_at(ClientId id, FileId file, Kept& kept, Clock::time_point at);
  // Finds the clients with layouts that name a data server which was not away before.
  void look_for_lost(const std::set<std::uint32_t>& away);
  // A client that is due: true if it is to be asked.
  [[nodiscard]] bool ask(Clients::value_type& of, Clock::time_point now,
                         const std::set<std::uint32_t>& away);

  const Limits limits_;
  Clients clients_;
  std::set<std::pair<Clock::time_point, ClientId>> looks_;
  std::set<Recall> recalls_;
  std::set<std::uint32_t> away_;  // at the last due()
  std::size_t size_ = 0;
};

}  // namespace weft::mds
