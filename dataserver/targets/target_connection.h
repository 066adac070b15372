// One connection of a TargetServer, and what connections share. Internal to target_server.cc and
// target_connection.cc.
//
// Threading: a Connection lives on its channel's thread, but for retire(), which may be called from
// any. Shared: the registry under its mutex, counters atomic.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "dataserver/targets/target_server.h"
#include "rpc/base/log_limit.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

struct TargetServer::Shared {
  explicit Shared(Parts from) : parts(std::move(from)), instance(parts.random.u64()) {}

  // Closes every connection that `by`, which says `hello` and has `key`, replaces; then(), on any
  // thread, when none of them has an operation left.
  void retire_others(const std::shared_ptr<Connection>& by, const TargetHello& hello,
                     const rpc::peer::ClusterKey& key, std::move_only_function<void()> then);
  // False: it is to be closed, since the server stops.
  [[nodiscard]] bool add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  [[nodiscard]] std::vector<std::shared_ptr<Connection>> all();

  const Parts parts;
  const std::uint64_t instance;  // of this process
  std::atomic<bool> stopping{false};
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> commits{0};
  std::atomic<std::uint64_t> read_bytes{0};
  std::atomic<std::uint64_t> write_bytes{0};
  std::atomic<std::uint64_t> lent_bytes{0};
  std::atomic<std::uint64_t> readers{0};
  std::atomic<std::uint64_t> writers{0};
  std::atomic<std::uint64_t> errors{0};
  std::atomic<std::uint64_t> refused{0};
  LogLimit refused_log;
  std::atomic<std::uint64_t> running{0};
  std::array<SharedLatency, std::tuple_size_v<TargetTimes>> times;

  struct Entry {
    std::shared_ptr<Connection> connection;
    std::optional<TargetHello> hello = {};  // once it has proved who it is
    rpc::peer::ClusterKey key = {};         // that of the proof
    // Whether a connection that says `by` replaces this one.
    [[nodiscard]] bool replaced_by(const TargetHello& by) const {
      return hello && hello->space == by.space &&
             (hello->boot != by.boot || hello->link == by.link);
    }
  };
  Mutex mutex;
  CondVar none_left;
  // Until their last operation has ended.
  std::vector<Entry> connections WEFT_GUARDED_BY(mutex);
};

class TargetServer::Connection final : public rpc::ChannelUser,
                                       public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<Shared> shared, std::shared_ptr<rpc::Channel> channel)
      : shared_(std::move(shared)), channel_(std::move(channel)) {}

  void start();
  void on_record(rpc::ReceivedRecord record) override;
  void on_closed(const Error& why) override;

  // Closes it; gone(), once, when no operation of it is left.
  void retire(std::move_only_function<void()> gone);
  // Lets go of the channel. Only when its I/O thread has ended.
  void abandon() { channel_.reset(); }

 private:
  // A request as it came, with where its bulk data is.
  struct Arrival {
    TargetRequest request;
    std::vector<Buffer> data;  // kWrite: the bytes; kRead: the room
    PipedBytes piped;          // kWrite: or here
  };
  [[nodiscard]] static Result<Arrival> unpack(rpc::ReceivedRecord record);
  void hello(const TargetHello& hello, std::uint64_t offered);
  void found_space(const TargetHello& hello, const rpc::peer::ClusterKey& key,
                   Result<OpenSpace> space);
  void dispatch(Arrival arrival);
  void read(Arrival arrival);
  void write(Arrival arrival);
  void commit(const TargetRequest& request);
  [[nodiscard]] TimePoint now() const { return shared_->parts.clock.now(); }
  void took(TargetTimed op, TimePoint begun);
  void read_done(const TargetRequest& request, const std::byte* room, Result<ReadResult> result);
  // Whether it has handed over, if that is welcome, what the object can be read or written by.
  [[nodiscard]] bool hand_descriptor(const TargetRequest& request);
  // Answers, and counts the request as ended.
  void finish(TargetResponse response, Payload bulk = {});
  void finish_with(const TargetRequest& request, Error why);
  void refuse(Error why);
  template <class T, class Fill>
  auto answer(const TargetRequest& request, Fill fill);
  void check_quiet();

  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<rpc::Channel> channel_;
  Nonce nonce_{};
  Uuid space_{};
  Store* store_ = nullptr;      // of the space, once welcome
  FileStore* files_ = nullptr;  // likewise, if objects may be read and written past it
  bool checked_ = false;        // the space keeps checksums
  bool greeted_ = false;        // a Hello came
  bool tells_version_ = false;  // the Hello offered some
  std::uint32_t version_ = 0;   // of the protocol, once a Hello that fits has come
  bool closed_ = false;
  bool paused_ = false;
  bool writes_past_ = false;  // it was given a descriptor to write by
  std::size_t running_ = 0;
  std::vector<std::move_only_function<void()>> gone_;  // to be told when nothing runs
};

}  // namespace weft::ds
