// RemoteStore: a store in another process, on this machine or another (messages.h).
//
// Each I/O thread has a connection of its own (target_link.h). Buffers of the pool are lent to the
// target where the connection is shared memory: a WRITE's data goes from the pages that the socket
// received it into to the target's file, and a READ's from the target's file into pages that the
// socket sends, without a copy between the two processes.
//
// A target remembers nothing of a data server but its objects, and a data server of a target but
// which store it was: in the file `target` of the data server's own folder. A target whose store
// was wiped has a new identity and is refused: what it does not have must not read as holes. Where
// others have it too (Parts::replaceable), an empty one is offered, and taken if accept() says so.
//
// Nor is one served whose store was rolled back, as by a snapshot or an old copy: each time when
// the target or this process has begun anew, a state is noted at the target (NOTE), and then in the
// file `target-state-UUID` here. A target that knows only an earlier one has lost what came since.
// Until serve() that is only told, and nothing is changed; after it the target is refused.
//
// A target that is reached through shared memory, and keeps its objects in files that the page
// cache serves, hands a descriptor of an object over with a READ's or WRITE's answer, if one is
// welcome (Parts::bypass). From then on what is in the page cache is read by that, and what is
// written is written by it, past the target (bypass.h), and only the rest goes through it. A write
// that must be stable is then a write and the target's commit: as many messages, without the bytes.
//
// Threading: operations from any thread whose IoRing was given to open(). The rest from one thread.
//
// Ownership: rings, pool and folder outlive it. close() before the threads end.
#pragma once

#include <functional>
#include <vector>

#include "dataserver/ring/io_ring.h"
#include "dataserver/store/store.h"
#include "dataserver/targets/bypass.h"
#include "dataserver/targets/target_link.h"
#include "rpc/base/mutex.h"

namespace weft::ds {

class RemoteStore final : public Store {
 public:
  struct Parts {
    TargetAddress address;
    Uuid space{};  // of the data server's own store
    std::shared_ptr<const rpc::peer::Keyring> keys;
    LinkOptions options;
    BufferPool& pool;  // with an arena, where shared memory is to be used
    Random& random;
    std::vector<IoRing*> rings;
    int folder;  // of the data server
    // Whether a target's store may be the one behind this; of several that must differ.
    std::function<Result<>(const Uuid& store)> may_be = {};
    bool replaceable = false;  // a new and empty store may take the place of the one it was
    DialRdma dial_rdma = {};   // none: TCP is taken where RDMA is named
    std::size_t bypass = 0;    // objects read and written past the target, at most; 0: none
  };
  // Does not wait for the target. kIo, kCorrupt: the file `target`.
  [[nodiscard]] static Result<std::unique_ptr<RemoteStore>> open(Parts parts);
  ~RemoteStore() override;

  // Whether another store answers than the one it was, new and empty; and: it is that from now on,
  // durably. accept() waits for the disk. kNotFound: none does.
  [[nodiscard]] bool offered() const;
  [[nodiscard]] Result<> accept();
  // Zeros: never known.
  [[nodiscard]] Uuid identity() const;

  // False: its data server has stopped serving, since the target does not answer or its disk fails.
  // What waits for the target fails (kTimedOut), now and until it is told true. Any thread.
  void wait_for_target(bool wait) { view_.awaited.store(wait, std::memory_order_relaxed); }

  // Whether the target was found to have been rolled back; and whether it is refused for that.
  [[nodiscard]] bool rolled_back() const;
  [[nodiscard]] bool refused() const;
  // Clients are served from now on. If the target was rolled back it is taken as it is, if that is
  // so; whoever says so sees to what it lacks. Only the first time counts.
  void serve(bool as_it_is);

  // Ends every connection; what still waits fails.
  void close();

  // Whether large writes had best come with their bytes still in the kernel.
  [[nodiscard]] bool takes_pipes() const { return bypass_.writes(); }

  using Store::read;
  using Store::write;
  void read(StoreRead what, Done<ReadResult> done) override;
  void write(StoreWrite what, Done<WriteResult> done) override;
  void commit(const layout::ObjectId& object, Done<WriteVerifier> done) override;
  void truncate(const layout::ObjectId& object, std::uint64_t size, Done<ObjectStat> done) override;
  void remove(const layout::ObjectId& object, Done<void> done) override;
  void stat(const layout::ObjectId& object, Done<ObjectStat> done) override;
  void next_data(const layout::ObjectId& object, std::uint64_t offset, Done<DataRun> done) override;
  void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                Done<void> done) override;
  void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
             Done<void> done) override;
  void list(ListPlace from, std::uint32_t max, Done<ObjectList> done) override;
  [[nodiscard]] WriteVerifier verifier() const override { return view_.verifier.load(); }
  [[nodiscard]] bool settled() const override { return view_.unsettled.load() == 0; }
  // As the target said last. kUnreachable while it is not connected, kIo while it says that its
  // disk fails.
  [[nodiscard]] Result<StoreStat> usage() const override;

  // Fingerprints of the cluster keys that the target has, the one that it uses first, as it said
  // last. kUnreachable: it is not connected, or has not said; kNotSupported: its version does not
  // tell. Any thread.
  [[nodiscard]] Result<std::vector<std::uint64_t>> keys() const;

  // Its version and options; likewise.
  [[nodiscard]] Result<rpc::control::About> about() const;

  [[nodiscard]] const TargetView& view() const { return view_; }
  [[nodiscard]] const TargetAddress& address() const { return parts_.address; }

 private:
  explicit RemoteStore(Parts parts);
  [[nodiscard]] Result<> load_identity();
  [[nodiscard]] Result<> load_noted();
  [[nodiscard]] Result<> same_store(const TargetStore& told);
  [[nodiscard]] Result<> not_rolled_back(const TargetStore& told) WEFT_REQUIRES(mutex_);
  // Notes another state at the target, unless that was done since it began, and since this did.
  void note(TargetLink& link, std::uint64_t instance);
  // A note of this store was answered so.
  [[nodiscard]] Result<> noted(const Uuid& store, const StoreState& state,
                               const Result<TargetLink::Answer>& answer);
  // Notes durably that it is this store. Lets go of mutex_ meanwhile.
  [[nodiscard]] Result<> keep(const Uuid& store) WEFT_REQUIRES(mutex_);
  // Until nobody is in keep(); kBusy: that takes too long.
  [[nodiscard]] Result<> await_kept() WEFT_REQUIRES(mutex_);
  [[nodiscard]] TargetLink& link() const;
  [[nodiscard]] Bypass::AtHand<Result<WriteResult>> write_past(StoreWrite& what);
  // `written` past the target is to be stable as well.
  void commit_past(StoreWrite what, const WriteResult& written, Done<WriteResult> done);
  void write_through(StoreWrite what, bool descriptor, Done<WriteResult> done);
  void keep(const layout::ObjectId& object, TargetLink::Answer& answer, bool writable);
  // Errors as they come; `fill` makes a T of an answer.
  template <class T, class Fill>
  void call(TargetRequest request, std::vector<Buffer> data, Done<T> done, Fill fill,
            PoolShare share = PoolShare::kServers);

  const Parts parts_;
  TargetView view_;
  Bypass bypass_;
  TargetLink::Config config_;
  std::vector<std::shared_ptr<TargetLink>> links_;  // by the ring's index
  mutable Mutex mutex_;
  CondVar kept_;
  bool keeping_ WEFT_GUARDED_BY(mutex_) = false;  // somebody is in keep()
  Uuid store_ WEFT_GUARDED_BY(mutex_){};          // the target's; zeros: none yet
  Uuid offered_ WEFT_GUARDED_BY(mutex_){};        // another that would take its place
  // The file `target-state-UUID`; of one that is taken as it is the older one that it had, until
  // another is noted.
  StoreState noted_ WEFT_GUARDED_BY(mutex_);
  std::uint64_t generation_ WEFT_GUARDED_BY(mutex_) = 0;  // the greatest that was seen or asked for
  // The target's instance that was asked to note a state; nullopt: none, or it failed.
  std::optional<std::uint64_t> noted_for_ WEFT_GUARDED_BY(mutex_);
  bool serving_ WEFT_GUARDED_BY(mutex_);
  bool rolled_back_ WEFT_GUARDED_BY(mutex_) = false;
  TargetStore old_ WEFT_GUARDED_BY(mutex_);  // what that said
  bool closed_ = false;
};

}  // namespace weft::ds
