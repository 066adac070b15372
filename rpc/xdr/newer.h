// A field of a described record (describe.h) that a writer of the version before does not have. In
// JSON, where fields have names, any; in XDR an optional one at the end of a message (describe.h):
//
//   io("age", r.age, newer());
//   io("rows", r.rows, newer(cut_at(9)));
//
// A reader leaves the field as it was when there is none.
//
// Threading: plain values.
#pragma once

namespace weft {

struct Nothing {};
template <class Rule>
struct Newer {
  Rule rule;
};

template <class Rule = Nothing>
constexpr Newer<Rule> newer(Rule rule = {}) {
  return {rule};
}

}  // namespace weft
