#include "dataserver/ring/writes_in_flight.h"

#include "rpc/base/assert.h"

namespace weft::ds {

WritesInFlight::WritesInFlight(std::vector<IoRing*> rings)
    : rings_(std::move(rings)), threads_(rings_.size()) {}

WritesInFlight::Token WritesInFlight::enter() const {
  const IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr && ring->index() < threads_.size());
  return threads_[ring->index()].current;
}

void WritesInFlight::drain(std::move_only_function<void()> done) {
  struct Drain {
    std::atomic<std::size_t> threads_left;
    std::move_only_function<void()> done;
  };
  auto drain = std::make_shared<Drain>(threads_.size(), std::move(done));
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    rings_[i]->post([this, i, drain] {
      auto next = std::make_shared<Period>();
      auto old = std::exchange(threads_[i].current, next);
      old->next = std::move(next);
      old->over = [drain] {
        if (drain->threads_left.fetch_sub(1) == 1) drain->done();
      };
      // `old` goes here, and with it the period unless a write still holds it.
    });
  }
}

}  // namespace weft::ds
