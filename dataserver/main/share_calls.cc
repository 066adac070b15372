#include "dataserver/main/share_calls.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "layout/striping.h"
#include "rpc/base/assert.h"

namespace weft::ds {
namespace {

namespace control = rpc::control;

constexpr unsigned kUnitsAtOnce = 64;
constexpr unsigned kMostSteps = 4096;  // of a search

layout::Striping striping_of(const control::Share& share) {
  const auto striping = layout::Striping::make(share.stripe_unit, share.servers, share.first_index);
  WEFT_ASSERT(striping.has_value());  // the request was read: is_well_striped()
  return *striping;
}

class Allocation : public std::enable_shared_from_this<Allocation> {
 public:
  Allocation(Store& store, const control::AllocateShare& request, Store::Done<void> done)
      : store_(store),
        object_(request.range.object),
        striping_(striping_of(request.share)),
        server_(request.share.server),
        at_(request.range.offset),
        end_(request.range.offset + request.range.length),
        done_(std::move(done)) {}

  // Starts what may be started; an operation that ends at once does not come in here again.
  void go_on() {
    if (std::exchange(starting_, true)) return;
    while (result_ && under_way_ < kUnitsAtOnce) {
      at_ = striping_.next_held(server_, std::min(at_, end_));
      if (at_ >= end_) break;
      const layout::Extent unit = striping_.first_extent(at_, end_ - at_);
      at_ += unit.length;
      ++under_way_;
      store_.allocate(object_, unit.offset, unit.length,
                      [self = shared_from_this()](const Result<>& made) {
                        --self->under_way_;
                        if (!made && self->result_) self->result_ = made;
                        self->go_on();
                      });
    }
    starting_ = false;
    if (under_way_ == 0) done_(std::move(result_));
  }

 private:
  Store& store_;
  const layout::ObjectId object_;
  const layout::Striping striping_;
  const std::uint32_t server_;
  std::uint64_t at_;
  const std::uint64_t end_;
  Store::Done<void> done_;
  unsigned under_way_ = 0;
  bool starting_ = false;
  Result<> result_;  // the first error
};

class Search : public std::enable_shared_from_this<Search> {
 public:
  using Answer = control::SeekAnswer;

  Search(Store& store, const control::Seek& request, Store::Done<Answer> done)
      : store_(store),
        object_(request.object),
        striping_(striping_of(request.share)),
        server_(request.share.server),
        hole_(request.hole),
        at_(striping_.next_held(server_, request.offset)),
        done_(std::move(done)) {}

  void go_on() {
    if (std::exchange(stepping_, true)) return;
    do {
      if (at_ > layout::kMaxFileSize) return done_(Answer{});
      if (steps_++ == kMostSteps) return done_(Answer{at_, true});
      again_ = false;
      store_.next_data(object_, at_,
                       [self = shared_from_this()](Result<DataRun> run) { self->look(run); });
    } while (again_);
    stepping_ = false;
  }

 private:
  void look(Result<DataRun>& run) {
    if (!run && run.error() != Errc::kNotFound) return done_(pass(run));
    const DataRun found = run ? *run : DataRun{};
    if (hole_) {
      if (found.begin > at_) return done_(Answer{at_});
      if (found.end > layout::kMaxFileSize) return done_(Answer{});  // kNoData, too
      return step(striping_.next_held(server_, found.end));
    }
    if (found.begin > layout::kMaxFileSize) return done_(Answer{});
    const std::uint64_t held = striping_.next_held(server_, std::max(found.begin, at_));
    if (held < found.end) return done_(Answer{held});
    step(held);  // what was found is another server's
  }
  // Goes on from there, now or in the loop that asked the store.
  void step(std::uint64_t to) {
    at_ = to;
    again_ = true;
    go_on();
  }

  Store& store_;
  const layout::ObjectId object_;
  const layout::Striping striping_;
  const std::uint32_t server_;
  const bool hole_;
  std::uint64_t at_;
  Store::Done<Answer> done_;
  unsigned steps_ = 0;
  bool stepping_ = false;
  bool again_ = false;
};

}  // namespace

void allocate_share(Store& store, const control::AllocateShare& request, Store::Done<void> done) {
  std::make_shared<Allocation>(store, request, std::move(done))->go_on();
}

void seek_in_share(Store& store, const control::Seek& request,
                   Store::Done<control::SeekAnswer> done) {
  std::make_shared<Search>(store, request, std::move(done))->go_on();
}

}  // namespace weft::ds
