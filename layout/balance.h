// Balance: which data server is to give objects away, and who may take them, so that all are about
// as full as each other.
//
// What counts is the part of its space that a server uses. Moves that were decided on count at
// once, so that nothing is moved to and fro while servers' own reports lag behind.
//
// Threading: plain values; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "layout/candidate.h"

namespace weft::layout {

class Balance {
 public:
  // Of `candidates` those that are up and say how much they hold. `within`: fullest and emptiest
  // may be so far apart, as a part of 1.
  Balance(std::span<const Candidate> candidates, double within);

  // The part of its space that is used; 0: not one of ours.
  [[nodiscard]] double part(std::uint32_t ds_id) const;
  // How far apart the fullest and the emptiest are.
  [[nodiscard]] double spread() const;
  [[nodiscard]] bool even() const { return spread() <= within_; }

  // Who is to give next: the fullest that is above the mean and was not passed over; nullopt: all
  // is even, or nobody can give.
  [[nodiscard]] std::optional<std::uint32_t> giver() const;
  // It has nothing that could be moved.
  void pass_over(std::uint32_t ds_id) { passed_.insert(ds_id); }
  // Whether `to` is not the fuller of the two afterwards.
  [[nodiscard]] bool gains(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) const;
  void move(std::uint32_t from, std::uint32_t to, std::uint64_t bytes);

 private:
  struct Space {
    double capacity = 0;
    double used = 0;
    [[nodiscard]] double part() const { return used / capacity; }
  };
  [[nodiscard]] double mean() const;

  std::map<std::uint32_t, Space> servers_;
  std::set<std::uint32_t> passed_;
  double within_;
};

}  // namespace weft::layout
