#include "tools/load/client_copies.h"

#include <utility>

namespace weft::load {

struct ClientCopies::Write {
  std::uint64_t bytes = 0;
  std::size_t left = 0;  // copies that have not answered
  Done done;             // empty once called
  bool owed = false;     // answered early
  std::optional<Error> failed;
};

void ClientCopies::write(std::uint64_t offset, Buffer data, Done done) {
  if (failed_) return done(std::unexpected(*failed_));
  std::vector<Buffer> pieces;
  for (std::size_t copy = 1; copy < copies_; ++copy) {
    auto piece = data.share(0, data.size());
    if (!piece) return done(pass(piece));
    pieces.push_back(std::move(*piece));
  }
  pieces.push_back(std::move(data));
  auto write = std::make_shared<Write>();
  write->bytes = pieces.front().size();
  write->left = copies_;
  write->done = std::move(done);
  ++in_flight_;
  for (std::size_t copy = 0; copy < copies_; ++copy) {
    send_(copy, offset, std::move(pieces[copy]),
          [self = shared_from_this(), write](Result<> result) {
            self->answered(write, std::move(result));
          });
  }
}

void ClientCopies::answered(const std::shared_ptr<Write>& write, Result<> result) {
  --write->left;
  if (!result && !write->failed) write->failed = result.error();
  const bool all = write->left == 0;
  const bool early = !all && when_ == AnswerWhen::kFirst && !write->failed && write->done &&
                     owed_ + write->bytes <= window_;
  if (early) {
    write->owed = true;
    owed_ += write->bytes;
    return std::exchange(write->done, nullptr)({});
  }
  if (!all) return;
  --in_flight_;
  if (write->owed) owed_ -= write->bytes;
  if (write->failed && !failed_ && write->owed) failed_ = write->failed;
  if (write->done) {
    Result<> outcome;
    if (write->failed) outcome = std::unexpected(*write->failed);
    std::exchange(write->done, nullptr)(std::move(outcome));
  }
  if (in_flight_ != 0) return;
  for (Done& waiting : std::exchange(draining_, {})) drain(std::move(waiting));
}

void ClientCopies::drain(Done done) {
  if (in_flight_ != 0) return draining_.push_back(std::move(done));
  if (failed_) return done(std::unexpected(*failed_));
  done({});
}

}  // namespace weft::load
