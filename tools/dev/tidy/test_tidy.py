"""Tests of the tidy checks."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import checks  # noqa: E402
import headers  # noqa: E402
import source  # noqa: E402


def names(text):
    return [(function.name, function.lines) for function in source.functions(text)]


def test_finds_functions_in_namespaces_and_classes():
    text = '''namespace a::b {
class C final : public D {
 public:
  C(int x) : x_{x}, y_(x) {
    run();
  }
  int get() const override { return x_; }
  int x_ = 0;
  int z_{3};
};
Result<> free_one(
    int a,
    int b) {
  if (a) {
    return {};
  }
  auto f = [&](int c) {
    return c;
  };
  return f(b);
}
}  // namespace a::b
'''
    assert names(text) == [('C', 3), ('get', 1), ('free_one', 11)]


def test_braces_in_literals_and_comments_do_not_count():
    text = '''void f() {
  // }
  call("}{", '{', R"x(} )" )x");
  int n = 1'000'000;
}
int g() { return 0; }
'''
    assert names(text) == [('f', 5), ('g', 1)]


def test_tables_enums_and_aggregates_are_no_functions():
    text = '''constexpr Row kRows[] = {
    {1, f(2)},
    {2, f(3)},
};
enum class E : int { kA, kB };
struct S { int a = g(); };
template <class T>
struct V {
  T at(int i) { return T{i}; }
};
struct S* make(int a) {
  return nullptr;
}
'''
    assert names(text) == [('at', 1), ('make', 3)]


def test_for_loops_do_not_split_a_function():
    text = 'int f() {\n  for (int i = 0; i < 3; ++i) {\n    g();\n  }\n  return 1;\n}\n'
    assert names(text) == [('f', 6)]


def test_test_case_macros_are_functions():
    assert names('TEST_CASE("a { b", "[x]") {\n  CHECK(1);\n}\n') == [('TEST_CASE', 3)]


def test_a_function_of_71_lines_is_found():
    def body(lines):
        return 'void f() {\n' + '  g();\n' * (lines - 2) + '}\n'
    assert not list(checks.lengths('a.cc', body(70)))
    assert '71 lines' in next(checks.lengths('a.cc', body(71)))


def test_a_long_python_function_is_found():
    assert '72 lines' in next(checks.lengths('a.py', 'def f():\n' + '    g()\n' * 71))


def test_a_long_file_and_a_long_line_are_found():
    assert 'more than 800' in next(checks.lengths('a.cc', '\n' * 801))
    assert '101 columns' in next(checks.lengths('a.cc', 'x' * 101))


def findings(path, include):
    return list(checks.layering(path, f'#include {include}\n'))


def test_a_python_name_that_is_defined_twice_is_found():
    text = '''def one():
    pass
class Two:
    def one(self):
        pass
    @property
    def there(self):
        pass
    @there.setter
    def there(self, value):
        pass
    def one(self):
        pass
if a:
    def four():
        pass
else:
    def four():
        pass
def one():
    pass
class Two:
    pass
'''
    assert list(checks.twice('a.py', text)) == [
        'a.py:20: one is defined in line 1 already', 'a.py:22: Two is defined in line 3 already',
        'a.py:12: one is defined in line 4 already']


def test_layers():
    assert not findings('rpc/xdr/a.cc', '"rpc/base/error.h"')
    assert findings('rpc/base/a.cc', '"rpc/xdr/xdr.h"')
    assert findings('layout/a.cc', '"rpc/onc/message.h"')
    assert not findings('layout/a.cc', '"rpc/xdr/xdr.h"')
    assert findings('dataserver/nfs/a.cc', '"ganesha-fsal/meta/kv/kv.h"')
    assert findings('ganesha-fsal/meta/a.cc', '"dataserver/store/store.h"')
    assert not findings('dataserver/nfs/a.cc', '"rpc/session/server.h"')
    assert not findings('tests/x/a.cc', '"dataserver/store/store.h"')


def test_ganesha_only_by_its_wrapper():
    assert findings('ganesha-fsal/meta/a.cc', '"fsal_types.h"')
    assert findings('ganesha-fsal/meta/a.cc', '<fsal_types.h>')
    assert findings('ganesha-fsal/glue/a.cc', '<fsal_types.h>')
    assert findings('ganesha-fsal/meta/a.cc', '"ganesha-fsal/glue/ganesha.h"')
    assert not findings('ganesha-fsal/glue/a.cc', '"ganesha-fsal/glue/ganesha.h"')
    assert not findings('ganesha-fsal/glue/ganesha.h', '"fsal_types.h"')


def test_mutexes_are_those_that_the_compiler_checks():
    for kind in ('mutex', 'shared_mutex', 'lock_guard', 'unique_lock', 'condition_variable'):
        found = list(checks.mutexes('dataserver/store/a.h', f'int a;\n  std::{kind} b;\n'))
        assert len(found) == 1 and found[0].startswith(f'dataserver/store/a.h:2: std::{kind}')
        assert not list(checks.mutexes('tests/store/a.cc', f'std::{kind} b;'))
        assert not list(checks.mutexes('rpc/base/mutex.h', f'std::{kind} b;'))
    assert not list(checks.mutexes('rpc/base/a.h', '// std::mutex\nconst char* a = "std::mutex";'))


def test_no_two_test_files_have_one_name():
    assert len(list(checks.same_modules(['tests/a/test_x.py', 'tests/test_x.py']))) == 1
    assert not list(checks.same_modules(['tests/test_x.py', 'tests/test_y.py', 'a/x.py', 'x.py']))


def test_time_and_randomness_come_from_outside():
    for call in ('std::chrono::steady_clock::now()', 'system_clock::now()', 'Clock::now()',
                 'std::random_device{}()', '::time(nullptr)', 'std::time(nullptr)',
                 'clock_gettime(CLOCK_MONOTONIC, &at)'):
        assert len(list(checks.clocks('dataserver/new.cc', f'auto a = {call};\n'))) == 1
        assert not list(checks.clocks('tests/a.cc', f'auto a = {call};\n'))
        assert not list(checks.clocks('rpc/base/clock.cc', f'auto a = {call};\n'))
    for good in ('clock_.now()', 'now_()', 'run_time(3)', 'a.time(3)'):
        assert not list(checks.clocks('dataserver/new.cc', f'auto a = {good};\n'))


def test_the_systems_clock_is_named_by_who_puts_a_program_together():
    for call in ('system_clock().now()', 'system_random().u64()', 'Waits(&boottime_clock())',
                 'std::vector<Part>{{.clock = system_clock()}}'):
        text = f'auto a = {call};\n'
        assert len(list(checks.clocks('rpc/session/new.h', text))) == 1
        assert not list(checks.clocks('tests/a.cc', text))
        assert not list(checks.clocks('tools/weft/events.cc', text))
        assert not list(checks.clocks(checks.CLOCK_ASSEMBLIES[0], text))
    assert list(checks.clocks(checks.CLOCK_ASSEMBLIES[0], 'auto a = steady_clock::now();\n'))


def test_files_that_still_name_it_do_so_no_more_often_than_is_listed():
    path, owed = next(iter(checks.CLOCK_DEBTS.items()))
    named = 'auto a = system_clock().now();\n'
    assert not list(checks.clocks(path, owed * named))
    assert len(list(checks.clocks(path, (owed + 2) * named))) == 2
    assert len(list(checks.clocks(path, (owed - 1) * named))) == 1


def test_forbidden_words():
    host = '.'.join(['deb', 'debian', 'org'])
    assert list(checks.forbidden('a', f'get it from {host}'))
    assert list(checks.forbidden('a', 'see /' + 'work/x'))
    assert not list(checks.forbidden('a', 'build/work/x and framework/y, nfs.h'))


def test_a_source_file_begins_with_its_header():
    exists = {'rpc/a.h'}.__contains__
    assert not list(checks.own_header('rpc/a.cc', '#include "rpc/a.h"\n#include <map>\n', exists))
    assert not list(checks.own_header('rpc/b.cc', '#include <map>\n', exists))
    assert list(checks.own_header('rpc/a.cc', '#include <map>\n#include "rpc/a.h"\n', exists))
    assert list(checks.own_header('rpc/a.cc', 'int a;\n', exists))


def test_headers_that_no_source_file_begins_with_are_compiled():
    texts = {'rpc/a.h': '', 'rpc/a.cc': '#include "rpc/a.h"\n#include "rpc/b.h"\n', 'rpc/b.h': '',
             'ganesha-fsal/glue/c.h': ''}
    assert headers.unproved(texts) == ['rpc/b.h']


def test_a_header_that_lacks_an_include_is_found(tmp_path):
    (tmp_path / 'alone.h').write_text('#include <map>\ninline std::map<int, int> a;\n')
    (tmp_path / 'lacking.h').write_text('inline std::map<int, int> a;\n')
    assert headers.finding(tmp_path, 'alone.h') is None
    assert 'lacking.h:1: does not compile alone' in headers.finding(tmp_path, 'lacking.h')
