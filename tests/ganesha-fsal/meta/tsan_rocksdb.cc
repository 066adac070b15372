// The packaged RocksDB is not built with ThreadSanitizer, which so sees its memcpy and memcmp (and
// the std::string functions it shares with us) but not the atomics that order them. Reports with
// RocksDB on the stack are left out; what our own code does stays checked.

extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:librocksdb.so\nrace:librocksdb.so\ncalled_from_lib:libstdc++.so\n";
}
