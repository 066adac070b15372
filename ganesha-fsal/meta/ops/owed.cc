#include "ganesha-fsal/meta/ops/owed.h"

#include <utility>

namespace weft::mds {
namespace {

thread_local Owed* current_owed = nullptr;

}  // namespace

Owed::Scope::Scope(Owed& owed) : before_(std::exchange(current_owed, &owed)) {}

Owed::Scope::~Scope() { current_owed = before_; }

Owed* Owed::current() { return current_owed; }

}  // namespace weft::mds
