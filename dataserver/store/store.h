// The Store interface: the one way a data server reaches its objects.
//
// A store is a chain of small links with this interface (docs/architecture.md): FileStore keeps
// objects as sparse files; EmulatedStore makes it a slower disk, for benchmarks; SegmentStore
// (dataserver/segments) keeps together what is read together; CachedStore keeps what is read in
// memory; RemoteStore (dataserver/targets) reaches a target in another process; ParityStore is over
// several. A data server's configuration names its chain.
//
// Asynchrony: every operation takes a completion, called exactly once, on the thread that started
// the operation, possibly before the call returns. An operation in flight keeps its store alive by
// the owner's promise: a store is destroyed only after its last completion (close() waits).
//
// Ownership: write() takes over the payload's buffers and lets go of them when the bytes are in
// the store's hands; nothing is copied on the way, but by a link that must look at bytes that are
// still in the kernel. read() returns pieces the caller may hold as long as it likes.
//
// Durability: a write answered with Stability::kUnstable may be lost when this process or machine
// dies; the write verifier then changes. After commit(), or a write answered kDataSync/kFileSync,
// the bytes are on stable storage. truncate, remove, punch, allocate are stable when they complete.
//
// Threading: all I/O threads of the data server share one store, and any of them may call any
// method. An implementation says in its header what it keeps for each thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "layout/object_id.h"
#include "rpc/base/buffer.h"
#include "rpc/base/error.h"
#include "rpc/base/piped_bytes.h"
#include "rpc/base/standing.h"

namespace weft::ds {

// RFC 8881 section 18.32: how stable a write must be, and was made.
enum class Stability : std::uint8_t { kUnstable = 0, kDataSync = 1, kFileSync = 2 };

// Changes whenever unstable data may have been lost, and only then.
using WriteVerifier = std::uint64_t;

struct ReadResult {
  Payload payload;               // at most what was asked; shorter only at the object's end
  std::uint64_t object_end = 0;  // the object's size in bytes when it was read
};

struct WriteResult {
  std::uint64_t bytes = 0;  // all of the payload, or an error: never silently short
  Stability stability = Stability::kUnstable;
  WriteVerifier verifier = 0;
  std::uint64_t object_end = 0;
};

struct ObjectStat {
  std::uint64_t size = 0;       // bytes, the end of the last byte written
  std::uint64_t allocated = 0;  // bytes of storage used
  std::int64_t mtime_ns = 0;    // last write, nanoseconds since 1970
};

struct StoreStat {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t objects = 0;
  bool counted = true;  // there are no more objects
};

// A read, and how it is to be done.
struct StoreRead {
  layout::ObjectId object;
  std::uint64_t offset = 0;
  std::uint32_t count = 0;
  // Memory of the caller's for the bytes; empty: the store finds some. At least `count` bytes, and
  // if it begins at a page, best whole blocks of 4096 around the range. The payload is then one
  // slice of it, or nothing.
  Buffer room = {};
  // The memory that the store finds is of this part of the pool, or kBusy.
  PoolShare share = PoolShare::kServers;
  // Of what the disk has: no link answers from memory of its own, or keeps what is read. For who
  // looks whether the disk still has it.
  bool uncached = false;
  // The payload holds no file ranges: who asked sends nothing straight from files, and a disk that
  // fails later could not be told of.
  bool to_memory = false;
};

// A write.
struct StoreWrite {
  layout::ObjectId object;
  std::uint64_t offset = 0;
  std::vector<Buffer> data = {};
  PipedBytes piped = {};  // the bytes are still in the kernel, and `data` is empty
  Stability wanted = Stability::kUnstable;

  [[nodiscard]] std::uint64_t size() const;
  // All bytes are in `data` afterwards. kBusy when memory is short.
  [[nodiscard]] Result<> to_memory();
};

constexpr std::uint64_t kNoData = std::numeric_limits<std::uint64_t>::max();

// A run of bytes of an object that may be other than zeros. What is between where was asked and its
// begin reads as zeros.
struct DataRun {
  std::uint64_t begin = kNoData;  // kNoData: there is none, however long the object is
  std::uint64_t end = kNoData;    // where the next hole begins; kNoData: not known
  friend bool operator==(const DataRun&, const DataRun&) = default;
};

// Where a listing goes on. Objects come in the order of their place, the same at every store that
// keeps objects in files: first their folder (object_folder()), then their name.
struct ListPlace {
  std::uint32_t folder = 0;
  layout::ObjectId after;  // the last that was listed in it; zeros: none yet
  friend auto operator<=>(const ListPlace&, const ListPlace&) = default;
};

struct ObjectList {
  std::vector<layout::ObjectId> objects;
  ListPlace next;
  bool more = false;  // otherwise `next` means nothing
};

class Store {
 public:
  template <class T>
  using Done = std::move_only_function<void(Result<T>)>;

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  // kNotFound when the object does not exist; an empty payload at or past its end.
  virtual void read(StoreRead what, Done<ReadResult> done) = 0;
  void read(const layout::ObjectId& object, std::uint64_t offset, std::uint32_t count,
            Done<ReadResult> done) {
    read({.object = object, .offset = offset, .count = count}, std::move(done));
  }
  // Creates the object on first write. kNoSpace, kIo, kFileTooLarge: nothing is promised of the
  // range then, and nothing outside it changed.
  virtual void write(StoreWrite what, Done<WriteResult> done) = 0;
  void write(const layout::ObjectId& object, std::uint64_t offset, std::vector<Buffer> data,
             Stability wanted, Done<WriteResult> done) {
    write({.object = object, .offset = offset, .data = std::move(data), .wanted = wanted},
          std::move(done));
  }
  // The whole object. The verifier is the one unstable writes were answered with unless data was
  // lost since. Success with nothing written is success; kNotFound is not an error here.
  virtual void commit(const layout::ObjectId& object, Done<WriteVerifier> done) = 0;
  // Sets the size, both ways; an object that does not exist stays so when size is 0, otherwise it
  // is created.
  virtual void truncate(const layout::ObjectId& object, std::uint64_t size,
                        Done<ObjectStat> done) = 0;
  // Success when it does not exist.
  virtual void remove(const layout::ObjectId& object, Done<void> done) = 0;
  virtual void stat(const layout::ObjectId& object, Done<ObjectStat> done) = 0;
  // The first run at or after `offset`, of what is written whether it is stable or not. Who cannot
  // tell where holes are says that all may be data. kNotFound: there is no object.
  virtual void next_data(const layout::ObjectId& /*object*/, std::uint64_t offset,
                         Done<DataRun> done) {
    done(DataRun{.begin = offset});
  }
  // Reserves space for a range, and makes a range a hole (RFC 7862 sections 15.1 and 15.4).
  virtual void allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                        Done<void> done) = 0;
  virtual void punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                     Done<void> done) = 0;

  // At most `max` objects from this place on, maybe none though there are more. What is made or
  // removed meanwhile may be listed or not; everything else is, once.
  virtual void list(ListPlace /*from*/, std::uint32_t /*max*/, Done<ObjectList> done) {
    done(fail(Errc::kNotSupported, "this store cannot say what it has"));
  }

  [[nodiscard]] virtual WriteVerifier verifier() const = 0;
  // False while an operation whose completion told of an error may still be carried out. It is so
  // before that completion is called.
  [[nodiscard]] virtual bool settled() const { return true; }
  [[nodiscard]] virtual Result<StoreStat> usage() const = 0;
};

// For a store that reads into memory of its own: a completion that brings what was read into `room`
// before `done` has it. `done` as it is when there is no room.
[[nodiscard]] Store::Done<ReadResult> into_room(Buffer room, Store::Done<ReadResult> done);

}  // namespace weft::ds
