// Random operations on a few objects, against strings in memory.
#include "tests/dataserver/store/store_model.h"

#include <catch2/catch_test_macros.hpp>

#include "tests/dataserver/store/store_runner.h"
#include "tests/dataserver/temp_folder.h"

namespace weft::ds {
namespace {

using test::StoreRunner;
using test::TempFolder;

void check_against_model(IoMode mode) {
  const TempFolder folder;
  FileStoreOptions options;
  options.path = folder.path() + "/store";
  options.mode = mode;
  options.max_open_files = 64;
  StoreRunner runner(options);
  CHECK(test::behaves_like_strings(runner));
}

TEST_CASE("a buffered store behaves like strings in memory") {
  check_against_model(IoMode::kBuffered);
}

TEST_CASE("a direct store behaves like strings in memory") { check_against_model(IoMode::kDirect); }

}  // namespace
}  // namespace weft::ds
