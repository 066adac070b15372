// A device's verbs and its connections without a kernel, for tests of what is built on them: the
// functions of libibverbs and librdmacm that our code calls are those of fake_verbs.cc, where an
// executable has it. There is one device, and a test plays the peers of its connections.
//
// A completion channel is readable while it has events, and each event is an edge, as of a real
// one; a queue tells once until it is asked again. What is sent is done at once, and told of if it
// is to be.
//
// Threading: one thread. Ownership: there is one at a time, and it outlives what is made of it.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

namespace weft::rpc::rdma::test {

class FakeVerbs {
 public:
  FakeVerbs();
  ~FakeVerbs();
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;

  [[nodiscard]] ibv_context* verbs() { return &context_; }
  // One that a peer asks for, heard of by `channel`.
  [[nodiscard]] rdma_cm_id* connection(rdma_event_channel* channel);

  // The peers' end. ------------------------------------------------------------------------------
  // Something has come: the receive that was posted first is done. False: there is none.
  bool send(rdma_cm_id* to);
  void tell(rdma_cm_id* id, rdma_cm_event_type type);
  // Of all connections. When the last of them is gone, so are the verbs.
  void remove_device();

  // What was done. -------------------------------------------------------------------------------
  std::size_t looks = 0;  // for events of completion: system calls
  int last_vector = -1;   // of a completion queue
  std::size_t asks = 0;   // to be told of completions
  // Made of the verbs, and not destroyed. When the device went: 0, or something uses it after that.
  [[nodiscard]] std::size_t objects() const { return objects_; }
  std::size_t objects_when_gone = 0;
  bool gone = false;

 private:
  friend struct FakeVerbsCalls;
  struct Channel;
  struct Queue;
  struct Pair;

  ibv_device device_{};
  ibv_context context_{};
  std::set<rdma_cm_id*> ids_;
  std::size_t objects_ = 0;
  bool removed_ = false;
};

}  // namespace weft::rpc::rdma::test
