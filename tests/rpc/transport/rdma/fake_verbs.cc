#include "tests/rpc/transport/rdma/fake_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "rpc/base/assert.h"

namespace weft::rpc::rdma::test {
namespace {

FakeVerbs* the_device = nullptr;

// A counter that is readable while it is not 0. Each write to it is an edge.
int counter() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  WEFT_ASSERT(fd >= 0);
  return fd;
}
void up(int fd) {
  const std::uint64_t one = 1;
  WEFT_ASSERT(::write(fd, &one, sizeof one) == sizeof one);
}
void down(int fd) {
  std::uint64_t one = 0;
  WEFT_ASSERT(::read(fd, &one, sizeof one) == sizeof one);
}

struct Events : rdma_event_channel {
  std::deque<rdma_cm_event*> waiting;
};

}  // namespace

struct FakeVerbs::Channel : ibv_comp_channel {
  std::deque<ibv_cq*> events;
};

struct FakeVerbs::Queue : ibv_cq {
  std::deque<ibv_wc> done;
  bool armed = false;
  void add(const ibv_wc& completion) {
    done.push_back(completion);
    if (!std::exchange(armed, false)) return;
    auto& events = *static_cast<Channel*>(channel);
    events.events.push_back(this);
    up(events.fd);
  }
};

struct FakeVerbs::Pair : ibv_qp {
  std::deque<ibv_recv_wr> receives;
};

struct FakeVerbsCalls {
  static int poll(ibv_cq* cq, int most, ibv_wc* out) {
    auto& queue = *static_cast<FakeVerbs::Queue*>(cq);
    int count = 0;
    for (; count < most && !queue.done.empty(); ++count) {
      out[count] = queue.done.front();
      queue.done.pop_front();
    }
    return count;
  }
  static int ask(ibv_cq* cq, int /*solicited*/) {
    ++the_device->asks;
    static_cast<FakeVerbs::Queue*>(cq)->armed = true;
    return 0;
  }
  static int receive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** /*bad*/) {
    static_cast<FakeVerbs::Pair*>(qp)->receives.push_back(*request);
    return 0;
  }
  static int send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** /*bad*/) {
    for (; request != nullptr; request = request->next) {
      if ((request->send_flags & IBV_SEND_SIGNALED) == 0) continue;
      ibv_wc done{};
      done.wr_id = request->wr_id;
      static_cast<FakeVerbs::Queue*>(qp->send_cq)->add(done);
    }
    return 0;
  }
  template <class Made>
  static Made* made(Made* of) {
    WEFT_ASSERT(!the_device->gone);
    ++the_device->objects_;
    return of;
  }
  static void destroyed() {
    WEFT_ASSERT(!the_device->gone);
    --the_device->objects_;
  }
  static ibv_comp_channel* make_channel(ibv_context* context) {
    auto* channel = made(new FakeVerbs::Channel);
    channel->context = context;
    channel->fd = counter();
    channel->refcnt = 0;
    return channel;
  }
  static int destroy(ibv_comp_channel* channel) {
    if (channel->refcnt > 0) return EBUSY;
    destroyed();
    ::close(channel->fd);
    delete static_cast<FakeVerbs::Channel*>(channel);
    return 0;
  }
  static ibv_cq* make_queue(ibv_context* context, void* user, ibv_comp_channel* channel,
                            int vector) {
    the_device->last_vector = vector;
    auto* queue = made(new FakeVerbs::Queue);
    queue->context = context;
    queue->channel = channel;
    queue->cq_context = user;
    ++channel->refcnt;
    return queue;
  }
  // Its events go with it.
  static int destroy(ibv_cq* queue) {
    auto& channel = *static_cast<FakeVerbs::Channel*>(queue->channel);
    for (std::size_t left = std::erase(channel.events, queue); left > 0; --left) down(channel.fd);
    --channel.refcnt;
    destroyed();
    delete static_cast<FakeVerbs::Queue*>(queue);
    return 0;
  }
  static int event(ibv_comp_channel* channel, ibv_cq** queue, void** user) {
    ++the_device->looks;
    auto& events = static_cast<FakeVerbs::Channel*>(channel)->events;
    if (events.empty()) {
      errno = EAGAIN;
      return -1;
    }
    *queue = events.front();
    *user = events.front()->cq_context;
    events.pop_front();
    down(channel->fd);
    return 0;
  }
  static void make_pair(rdma_cm_id* id, const ibv_qp_init_attr& wanted) {
    auto* pair = made(new FakeVerbs::Pair);
    pair->context = id->verbs;
    pair->send_cq = wanted.send_cq;
    pair->recv_cq = wanted.recv_cq;
    id->qp = pair;
  }
  static void destroy_pair(rdma_cm_id* id) {
    destroyed();
    delete static_cast<FakeVerbs::Pair*>(std::exchange(id->qp, nullptr));
  }
  static void destroy_id(rdma_cm_id* id) {
    WEFT_ASSERT(id->qp == nullptr && the_device->ids_.erase(id) == 1);
    auto& events = *static_cast<Events*>(id->channel);
    for (rdma_cm_event*& event : events.waiting) {
      if (event->id != id) continue;
      delete std::exchange(event, nullptr);
      down(events.fd);
    }
    std::erase(events.waiting, nullptr);
    delete id;
    if (!the_device->removed_ || !the_device->ids_.empty()) return;
    the_device->objects_when_gone = the_device->objects_;
    the_device->gone = the_device->objects_ == 0;
  }
};

FakeVerbs::FakeVerbs() {
  WEFT_ASSERT(std::exchange(the_device, this) == nullptr);
  device_.transport_type = IBV_TRANSPORT_IB;
  context_.device = &device_;
  context_.ops.poll_cq = FakeVerbsCalls::poll;
  context_.ops.req_notify_cq = FakeVerbsCalls::ask;
  context_.ops.post_recv = FakeVerbsCalls::receive;
  context_.ops.post_send = FakeVerbsCalls::send;
}

FakeVerbs::~FakeVerbs() {
  WEFT_ASSERT(ids_.empty());
  the_device = nullptr;
}

rdma_cm_id* FakeVerbs::connection(rdma_event_channel* channel) {
  auto* id = new rdma_cm_id{};
  id->channel = channel;
  id->verbs = &context_;
  ids_.insert(id);
  return id;
}

bool FakeVerbs::send(rdma_cm_id* to) {
  auto* pair = static_cast<Pair*>(to->qp);
  if (pair == nullptr || pair->receives.empty()) return false;
  ibv_wc done{};
  done.wr_id = pair->receives.front().wr_id;
  done.byte_len = 1;
  pair->receives.pop_front();
  static_cast<Queue*>(pair->recv_cq)->add(done);
  return true;
}

void FakeVerbs::tell(rdma_cm_id* id, rdma_cm_event_type type) {
  auto& events = *static_cast<Events*>(id->channel);
  auto* event = new rdma_cm_event{};
  event->id = id;
  event->event = type;
  events.waiting.push_back(event);
  up(events.fd);
}

void FakeVerbs::remove_device() {
  removed_ = true;
  for (rdma_cm_id* id : ids_) tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

}  // namespace weft::rpc::rdma::test

using namespace weft::rpc::rdma::test;  // NOLINT: what follows has names of two C libraries
using Calls = FakeVerbsCalls;

#undef ibv_reg_mr  // a choice between the next two

extern "C" {

const char* ibv_get_device_name(ibv_device* /*device*/) { return "fake"; }
const char* ibv_wc_status_str(ibv_wc_status /*status*/) { return "status"; }
int ibv_query_device(ibv_context* /*context*/, ibv_device_attr* out) {
  *out = {};
  out->max_qp_wr = 1024;
  out->max_qp_rd_atom = out->max_qp_init_rd_atom = 16;
  return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) { return Calls::made(new ibv_pd{.context = context}); }
int ibv_dealloc_pd(ibv_pd* domain) {
  Calls::destroyed();
  delete domain;
  return 0;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t size, std::uint64_t /*iova*/,
                         unsigned /*access*/) {
  return Calls::made(
      new ibv_mr{.context = domain->context, .pd = domain, .addr = address, .length = size});
}
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t size, int access) {
  return ibv_reg_mr_iova2(domain, address, size, 0, static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr* region) {
  Calls::destroyed();
  delete region;
  return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return Calls::make_channel(context);
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) { return Calls::destroy(channel); }
ibv_cq* ibv_create_cq(ibv_context* context, int /*entries*/, void* user, ibv_comp_channel* channel,
                      int vector) {
  return Calls::make_queue(context, user, channel, vector);
}
int ibv_destroy_cq(ibv_cq* queue) { return Calls::destroy(queue); }
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) {
  return Calls::event(channel, queue, user);
}
void ibv_ack_cq_events(ibv_cq* /*queue*/, unsigned /*count*/) {}

rdma_event_channel* rdma_create_event_channel() {
  auto* events = new Events;
  events->fd = counter();
  return events;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ::close(channel->fd);
  delete static_cast<Events*>(channel);
}
int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  auto& waiting = static_cast<Events*>(channel)->waiting;
  if (waiting.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *event = waiting.front();
  waiting.pop_front();
  down(channel->fd);
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  delete event;
  return 0;
}
int rdma_create_qp(rdma_cm_id* id, ibv_pd* /*domain*/, ibv_qp_init_attr* wanted) {
  Calls::make_pair(id, *wanted);
  return 0;
}
void rdma_destroy_qp(rdma_cm_id* id) { Calls::destroy_pair(id); }
int rdma_destroy_id(rdma_cm_id* id) {
  Calls::destroy_id(id);
  return 0;
}
int rdma_accept(rdma_cm_id* /*id*/, rdma_conn_param* /*answer*/) { return 0; }
int rdma_connect(rdma_cm_id* /*id*/, rdma_conn_param* /*asked*/) { return 0; }
int rdma_disconnect(rdma_cm_id* /*id*/) { return 0; }
int rdma_set_option(rdma_cm_id* /*id*/, int /*level*/, int /*name*/, void* /*value*/,
                    std::size_t /*size*/) {
  return 0;
}

}  // extern "C"
