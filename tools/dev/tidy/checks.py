"""The checks. Each takes (path, text) and yields findings, strings "path:line: what"."""

import ast
import re

import source

FILE_LIMIT, FILE_LISTED, FUNCTION_LIMIT, COLUMN_LIMIT = 800, 400, 70, 100

# Who may include whom: the first rule whose folder a file is in holds. A file may include its own
# folder, and what stands in the list. None: anything that is not forbidden by another rule. Within
# each part the folders stand in order: what is lower in the house comes first.
_DS, _MDS = 'dataserver/', 'ganesha-fsal/'
LAYERS = [
    ('rpc/base', []),
    ('rpc/xdr', ['rpc/base']),
    ('rpc/onc', ['rpc/base', 'rpc/xdr']),
    ('rpc/nfs4', ['rpc/base', 'rpc/xdr', 'rpc/onc']),
    ('rpc/transport', ['rpc/base', 'rpc/xdr', 'rpc/onc']),
    ('rpc/session', ['rpc/base', 'rpc/xdr', 'rpc/onc', 'rpc/nfs4', 'rpc/transport', 'rpc/peer',
                     'layout']),
    ('rpc/peer', ['rpc/base', 'rpc/xdr', 'layout']),
    ('rpc/control', ['rpc/base', 'rpc/xdr', 'rpc/peer', 'layout']),
    ('layout', ['rpc/base', 'rpc/xdr']),
    (_DS + 'ring', ['rpc', 'layout']),
    (_DS + 'load', ['rpc', 'layout']),
    (_DS + 'store', ['rpc', 'layout', _DS + 'ring']),
    (_DS + 'segments', ['rpc', 'layout', _DS + 'ring', _DS + 'store']),
    (_DS + 'process', ['rpc', 'layout', _DS + 'ring', _DS + 'store']),
    (_DS + 'mirror', ['rpc', 'layout', _DS + 'ring', _DS + 'store']),
    (_DS + 'parity', ['rpc', 'layout', _DS + 'ring', _DS + 'store']),
    (_DS + 'sums', ['rpc', 'layout', _DS + 'ring', _DS + 'store', _DS + 'parity']),
    (_DS + 'targets', ['rpc', 'layout'] +
     [_DS + f for f in ('ring', 'load', 'store', 'process', 'sums')]),
    (_DS + 'nfs', ['rpc', 'layout'] +
     [_DS + f for f in ('ring', 'load', 'store', 'segments', 'mirror')]),
    ('dataserver', ['rpc', 'layout']),
    (_MDS + 'config', ['rpc', 'layout']),
    (_MDS + 'meta/kv', ['rpc/base']),
    (_MDS + 'meta/schema', ['rpc/base', 'rpc/xdr', 'layout']),
    (_MDS + 'meta/ops', ['rpc/base', 'layout', _MDS + 'meta/kv', _MDS + 'meta/schema']),
    (_MDS + 'meta', ['rpc/base', 'layout']),
    (_MDS + 'cluster', ['rpc', 'layout', _MDS + 'meta/kv']),
    (_MDS + 'backup', ['rpc', 'layout', _MDS + 'meta', _MDS + 'cluster']),
    (_MDS + 'proxy', ['rpc', 'layout', _MDS + 'cluster']),
    (_MDS + 'files', ['rpc', 'layout'] + [_MDS + f for f in ('meta', 'cluster', 'proxy')]),
    (_MDS + 'admin', ['rpc']),
    (_MDS + 'repair', ['rpc', 'layout'] + [_MDS + f for f in ('meta', 'cluster')]),
    (_MDS + 'server', ['rpc', 'layout'] + [_MDS + f for f in ('meta', 'cluster', 'proxy', 'files',
                                                              'admin', 'repair')]),
    ('ganesha-fsal', ['rpc', 'layout']),
    ('tools', ['rpc', 'layout', 'ganesha-fsal/admin', 'ganesha-fsal/backup',
               'ganesha-fsal/config']),
    ('tests', None),
]
OUR_FOLDERS = ('rpc/', 'layout/', 'dataserver/', 'ganesha-fsal/', 'tools/', 'tests/')
# Ganesha's headers come in through this one file, included only in its own folder.
GANESHA_FOLDER = 'ganesha-fsal/glue'
GANESHA_WRAPPER = 'ganesha-fsal/glue/ganesha.h'
GANESHA_HEADERS = re.compile(
    r'^(?:fsal|nfs|sal|export|ganesha|mdcache|pnfs|gsh|log|config|city|avltree|uid2grp|idmapper|'
    r'FSAL|ntirpc|rpc/rpc|server_stats|client_mgr|common_utils|netgroup|hashtable|abstract_)'
    r'[\w./-]*\.h$')

_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)


def _within(path, folder):
    return path == folder or path.startswith(folder + '/')


def layering(path, text):
    rule = next((allowed for folder, allowed in LAYERS if _within(path, folder)), None)
    own = next((folder for folder, _ in LAYERS if _within(path, folder)), None)
    for match in _INCLUDE.finditer(text):
        line = text.count('\n', 0, match.start(2)) + 1
        quoted, name = match.group(1) == '"', match.group(2)
        if not name.startswith(OUR_FOLDERS):
            if quoted and path != GANESHA_WRAPPER:
                yield f'{path}:{line}: "{name}": ours are included by their path from the root, ' \
                      'others in <>'
            elif GANESHA_HEADERS.match(name) and path != GANESHA_WRAPPER:
                yield f'{path}:{line}: "{name}": Ganesha is included by {GANESHA_WRAPPER} only'
            continue
        if name == GANESHA_WRAPPER and not _within(path, GANESHA_FOLDER):
            yield f'{path}:{line}: only {GANESHA_FOLDER} may include Ganesha'
        if rule is None or _within(name, own):
            continue
        if not any(_within(name, folder) for folder in rule):
            yield f'{path}:{line}: {own} may not include "{name}"'


def first_include(text):
    match = _INCLUDE.search(text)
    return match.group(2) if match else None


# So that a build proves that the header compiles alone (headers.py looks at the others).
def own_header(path, text, exists):
    own = path[:-len('.cc')] + '.h'
    if path.endswith('.cc') and exists(own) and first_include(text) != own:
        yield f'{path}:1: its first include is to be "{own}"'


# What the compiler does not check: rpc/base/mutex.h has what it does.
_UNCHECKED = re.compile(r'\bstd::(?:(?:recursive_|timed_|recursive_timed_|shared_|shared_timed_)?'
                        r'mutex|lock_guard|scoped_lock|unique_lock|shared_lock|'
                        r'condition_variable(?:_any)?)\b')
PRODUCTION = ('rpc/', 'layout/', 'dataserver/', 'ganesha-fsal/')


def mutexes(path, text):
    if not path.startswith(PRODUCTION) or path == 'rpc/base/mutex.h':
        return
    for match in _UNCHECKED.finditer(source.blank_literals(text)):
        line = text.count('\n', 0, match.start()) + 1
        yield f'{path}:{line}: {match.group()}: use those of rpc/base/mutex.h, which the ' \
              'compiler checks'


# Time and randomness come in from outside (rpc/base/clock.h), so that tests are seeded and repeat.
_SYSTEM_CLOCK = re.compile(r'\b(?:steady_clock|system_clock|Clock|Steady|Time)::now\(|'
                           r'\brandom_device\b|(?<![\w.>])(?:::|std::)time\(|\bclock_gettime\(')
CLOCK_EXCEPTIONS = {
    'rpc/base/clock.cc': 'it is where they come from',
    'ganesha-fsal/meta/meta_bench.cc': 'a program that measures',
}

# What stands for them by name, for whoever puts a program together to pass on.
_NAMED_CLOCK = re.compile(r'\b(?:system_clock|boottime_clock|system_random)\(\)')
CLOCK_ASSEMBLIES = (
    'dataserver/main/data_server.cc',
    'dataserver/main/folder_chain.cc',
    'dataserver/main/group_chain.cc',
    'dataserver/main/store_chain.cc',
    'dataserver/main/target_chain.cc',
    'dataserver/targets/spaces.cc',
    'dataserver/targets/target.cc',
    'ganesha-fsal/backup/weft_fsck.cc',
    'ganesha-fsal/backup/weft_restore.cc',
    'ganesha-fsal/glue/exports.cc',
    'ganesha-fsal/glue/log.cc',
    'ganesha-fsal/meta/meta_fill.cc',
)
# Those that name one though they put nothing together, and how often. The list only gets shorter.
CLOCK_DEBTS = {
    'dataserver/main/changes_under_way.h': 1,
    'dataserver/mirror/partner_link.cc': 1,
    'dataserver/nfs/handle_gate.h': 1,
    'dataserver/process/supervisor.h': 1,
    'dataserver/ring/disk_waits.h': 1,
    'dataserver/ring/ring_threads.cc': 2,
    'dataserver/store/disk_watch.h': 1,
    'dataserver/store/file_store.h': 1,
    'dataserver/store/throttle.h': 1,
    'dataserver/targets/target_server.h': 1,
    'ganesha-fsal/meta/kv/rocks_kv.cc': 1,
    'ganesha-fsal/meta/ops/namespace.cc': 2,
    'rpc/base/log_limit.h': 1,
    'rpc/base/running_clock.h': 1,
    'rpc/control/client.cc': 1,
    'rpc/control/client.h': 1,
    'rpc/peer/connection.h': 1,
    'rpc/session/client_core.cc': 1,
    'rpc/session/client_request.h': 1,
    'rpc/session/local_route.h': 1,
    'rpc/session/preferred_dial.cc': 2,
    'rpc/transport/shm/shm_channel.h': 1,
}
CLOCK_SOURCES = ('rpc/base/clock.h', *CLOCK_EXCEPTIONS)


def clocks(path, text):
    if not path.startswith(PRODUCTION) or path in CLOCK_SOURCES:
        return
    code = source.blank_literals(text)
    found = list(_SYSTEM_CLOCK.finditer(code))
    named = [] if path in CLOCK_ASSEMBLIES else list(_NAMED_CLOCK.finditer(code))
    owed = CLOCK_DEBTS.get(path, 0)
    if len(named) < owed:
        yield f'{path}:1: names a clock {len(named)} times: CLOCK_DEBTS says {owed}, correct it'
    for match in found + named[owed:]:
        line = text.count('\n', 0, match.start()) + 1
        yield f'{path}:{line}: {match.group()}: take it from a Clock or Random (rpc/base/clock.h)'


# Addresses and checksums cannot be broken over lines.
_UNBREAKABLE = re.compile(r'https?://|[0-9a-f]{64}')


def same_modules(names):
    """pytest imports a test file by its bare name, and collects no second one of that name."""
    first = {}
    for name in names:
        base = name.rpartition('/')[2]
        of_pytest = base.startswith('test_') and base.endswith('.py')
        if of_pytest and first.setdefault(base, name) != name:
            yield f'{name}:1: pytest does not collect it beside {first[base]}: rename one'


def lengths(path, text):
    lines = text.count('\n')
    if lines > FILE_LIMIT:
        yield f'{path}:{FILE_LIMIT}: {lines} lines, more than {FILE_LIMIT} in one file'
    for function in _functions(path, text):
        if function.lines > FUNCTION_LIMIT:
            yield f'{path}:{function.first_line}: {function.name}: {function.lines} lines, ' \
                  f'more than {FUNCTION_LIMIT} in one function'
    for number, line in enumerate(text.split('\n'), 1):
        if len(line) > COLUMN_LIMIT and not _UNBREAKABLE.search(line):
            yield f'{path}:{number}: {len(line)} columns, more than {COLUMN_LIMIT}'


def _functions(path, text):
    if path.endswith('.py'):
        return [source.Function(node.name, node.lineno, node.end_lineno)
                for node in ast.walk(ast.parse(text))
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if path.endswith(('.h', '.cc')):
        return source.functions(text)
    return []


# The second definition takes the place of the first, which then nobody calls: of a test, nobody
# misses it. What a decorator makes of one name may be meant, as with a property and its setter.
def twice(path, text):
    for scope in ast.walk(ast.parse(text)):
        if not isinstance(scope, (ast.Module, ast.ClassDef)):
            continue
        first = {}
        for node in scope.body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            if node.decorator_list:
                continue
            if node.name in first:
                yield f'{path}:{node.lineno}: {node.name} is defined in line ' \
                      f'{first[node.name]} already'
            first.setdefault(node.name, node.lineno)


# Written in pieces, so that this file does not contain them itself.
_HOSTS = ['.'.join(parts) for parts in [
    ('debian', 'org'), ('pypi', 'org'), ('pythonhosted', 'org'), ('npmjs', 'org'), ('npmjs', 'com'),
    ('crates', 'io'), ('proxy', 'golang', 'org'), ('docker', 'io'), ('ghcr', 'io'),
    ('rubygems', 'org'), ('conan', 'io'), ('pkg', 'dev')]]
_PATHS = ['/' + 'work/', '/' + 'home/', '..' + '/shared', '/' + 'root/']
FORBIDDEN = re.compile('|'.join(
    [r'(?<![\w-])' + re.escape(host) + r'\b' for host in _HOSTS] +
    [r'(?<![\w.}])' + re.escape(path) for path in _PATHS]))


def forbidden(path, text):
    for match in FORBIDDEN.finditer(text):
        line = text.count('\n', 0, match.start()) + 1
        yield f'{path}:{line}: "{match.group()}" may not stand in the repository'
