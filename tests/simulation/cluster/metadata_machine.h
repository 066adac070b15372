// A machine that runs the metadata server: the real one over RocksDB on the machine's disk. In the
// place of NFS-Ganesha are calls of clients in this process, with the network's delay, cuts and
// deaths between the two.
//
// Threading: call() from any client's thread; the rest as Machine.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "ganesha-fsal/meta/kv/rocks_kv.h"
#include "ganesha-fsal/meta/ops/owed.h"
#include "ganesha-fsal/server/metadata_server.h"
#include "tests/simulation/cluster/machine.h"

namespace weft::sim {

// What the server asks of clients. Called on the server's threads.
class Clients {
 public:
  virtual ~Clients() = default;
  virtual void recall(mds::FileId file, mds::ClientId client) = 0;
};

class MetadataMachine final : public Machine, private mds::Recaller {
 public:
  MetadataMachine(unsigned node, const std::string& folder, Clients& clients);

  // Runs `what` with the server, as a request of a client on `from`: what it owes is waited for
  // once, before the answer. Nothing: no answer came, and it may have been done or not. `life`,
  // unless null, is set to the life that answered.
  template <class T>
  std::optional<T> call(unsigned from, const std::function<T(mds::MetadataServer&)>& what,
                        unsigned* life = nullptr) {
    std::optional<T> answer;
    if (!begin_call(from, life)) return std::nullopt;
    const unsigned asked = lives();
    mds::Owed owed;
    {
      const mds::Owed::Scope scope(owed);
      answer.emplace(what(*server_));
    }
    // As Ganesha does before a reply: without it there is none.
    const bool told = server_->names().settle(owed).has_value();
    if (!end_call(from, asked) || !told) return std::nullopt;
    return answer;
  }
  // Serves requests.
  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] mds::MetadataServer* server() { return up_ ? server_ : nullptr; }

 private:
  bool serve(const std::string& folder) override;
  void vanish() override;
  [[nodiscard]] mds::Environment environment(Clock& clock);
  bool begin_call(unsigned from, unsigned* life);
  bool end_call(unsigned from, unsigned asked);
  void wait_for_calls();

  void recall(mds::FileId file, mds::ClientId client, std::optional<layout::Access> only,
              std::function<void()> none) override;
  void recall_unused(mds::ClientId, std::function<void(bool)>) override {}

  Clients& clients_;
  std::atomic<bool> up_{false};
  mds::MetadataServer* server_ = nullptr;
  int calls_ = 0;  // under way
  Ns grace_ends_ = 0;
};

}  // namespace weft::sim
