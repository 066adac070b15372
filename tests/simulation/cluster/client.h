// A client machine: an application that writes, syncs and reads files, and a pNFS client under it
// that behaves as a stock Linux one does: layouts, sessions with data servers, COMMIT and
// LAYOUTCOMMIT, all of it again when something broke, recalls answered between two uses. Of a
// flexfiles layout it writes every mirror, and tells the metadata server what failed at which.
//
// Every wait has a deadline; an operation that is not over in time fails the run.
//
// Threading: the application's part on one thread of the client's machine; recalled() from
// anywhere, an event too.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "layout/flex_report.h"
#include "rpc/session/session_client.h"
#include "tests/simulation/cluster/cluster.h"
#include "tests/simulation/cluster/held_layout.h"
#include "tests/simulation/cluster/history.h"
#include "tests/simulation/cluster/metadata_machine.h"

namespace weft::sim {

// A file that all clients know, and one of them writes.
struct SharedFile {
  SharedFile(std::uint32_t number, std::size_t blocks) : history(number, blocks) {}
  mds::FileId id = 0;
  std::string name{};
  History history;
};

struct ClientTotals {
  std::uint64_t syncs = 0;
  std::uint64_t reads = 0;
  std::uint64_t looks = 0;
  std::uint64_t names = 0;
  std::uint64_t removed = 0;  // files with data
  std::uint64_t again = 0;    // attempts that had to be made anew
};

// What did not work of an attempt.
struct Failures {
  std::vector<layout::DeviceError> errors;
  bool unknown = false;  // a server may still carry out what it did not answer
  std::uint64_t offset = 0;
};

class Client {
 public:
  Client(unsigned index, MetadataMachine& mds, layout::PlacementPolicy policy);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] mds::ClientId id() const { return client_id(index_); }
  [[nodiscard]] unsigned node() const { return kFirstClientNode + index_; }
  [[nodiscard]] const ClientTotals& totals() const { return totals_; }

  // Of the application. They return when it is done.
  void create(SharedFile& file, const std::string& name);
  void write_and_sync(SharedFile& file);
  void read(SharedFile& file, bool through_mds);
  // The same blocks of all of them, twice, and once more after a pause: data servers with segments
  // make some of them meanwhile.
  void read_in_order(std::span<const std::unique_ptr<SharedFile>> files);
  // At the attributes.
  void look(SharedFile& file);
  void truncate(SharedFile& file);
  // Writes under a layout that was taken away, once the file is given out anew: no data server may
  // take that.
  void write_when_fenced(SharedFile& file);
  void work_on_names();
  // One of a few files with data comes, or goes.
  void work_on_passing_files(bool one_goes);
  [[nodiscard]] const std::vector<std::unique_ptr<SharedFile>>& passing_files() const {
    return passing_;
  }
  // Every name that was promised is there, and none that was removed.
  void check_names();

  // The metadata server wants the layout back.
  void recalled(mds::FileId file);

 private:
  struct Layout {
    HeldLayout held;
    unsigned life = 0;  // of the metadata server
    bool writes = false;
    bool recalled = false;
  };
  struct Piece {
    HeldLayout::Place place;
    std::uint64_t verifier = 0;
    bool stable = false;
  };
  using Blocks = std::vector<std::size_t>;
  using Place = HeldLayout::Place;
  struct Call;

  template <class T>
  std::optional<T> ask(const std::function<T(mds::MetadataServer&)>& what,
                       unsigned* life = nullptr) {
    return mds_.call<T>(node(), what, life);
  }
  void read_block(SharedFile& file, std::size_t block, bool through_mds);
  [[nodiscard]] Call begin_call(const Place& place, rpc::nfs4::OpArgs op);
  // Nothing: it failed, which is noted.
  template <class Ok>
  [[nodiscard]] std::optional<Ok> end_call(Call& begun, Failures& failures);
  [[nodiscard]] rpc::SessionClient& session(const std::string& server);
  [[nodiscard]] Layout* layout_of(mds::FileId file, bool writes);
  void give_back(mds::FileId file, bool forgotten, const Failures& failures = {});
  // The server may still carry out what it did not answer: the layout is lost, so that it is
  // fenced.
  void lose(mds::FileId file, const Failures& failures = {});
  void close_layout(mds::FileId file);
  void remove(const std::string& name);
  void remove_file(SharedFile& file);
  // LAYOUTRETURN's body.
  void report(mds::MetadataServer& server, mds::FileId file, const Failures& failures) const;
  [[nodiscard]] bool write_by_layout(SharedFile& file, const Blocks& blocks);
  [[nodiscard]] bool write_by_mds(SharedFile& file, const Blocks& blocks);
  // At every place; those that took it are added to `pieces`. Whether all did.
  [[nodiscard]] bool write_piece(SharedFile& file, const Layout& layout, std::size_t block,
                                 rpc::nfs4::StableHow stable, std::vector<Piece>& pieces,
                                 Failures& failures);
  [[nodiscard]] bool commit_pieces(const std::vector<Piece>& pieces, Failures& failures);
  [[nodiscard]] bool read_by_layout(SharedFile& file, std::size_t block);
  [[nodiscard]] bool read_by_mds(SharedFile& file, std::size_t block);
  void check(const SharedFile& file, std::size_t block, std::span<const std::byte> bytes,
             std::uint32_t promised, const std::string& way);
  void answer_recalls();
  void begin(const std::string& what);
  void again();

  const unsigned index_;
  MetadataMachine& mds_;
  const layout::PlacementPolicy policy_;
  std::mutex mutex_;  // held while layouts are in use
  std::map<mds::FileId, Layout> layouts_;
  std::map<std::string, bool> names_;  // of this client's own: promised to be there, or not
  unsigned next_name_ = 0;
  std::vector<std::unique_ptr<SharedFile>> passing_;
  std::string doing_;
  std::string refusal_;  // why the last attempt at it failed
  Ns deadline_ = 0;
  ClientTotals totals_;

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  BufferPool pool_{std::size_t{16} << 20};
  std::map<std::string, std::unique_ptr<rpc::SessionClient>> sessions_;
  std::thread io_;

  bool ending_ = false;
  std::deque<mds::FileId> recalls_;
  WaitList recall_came_;
  std::thread recalls_answered_;
};

}  // namespace weft::sim
