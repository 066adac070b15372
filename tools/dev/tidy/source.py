"""Reading C++ source for the checks: comments and literals blanked, functions found.

This is lexical: it knows no types, but where braces open and what stands before them, which is
enough to tell a function's body from a class, a namespace or an initialiser in code that
clang-format has laid out.
"""

import re
from dataclasses import dataclass

_LITERAL = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


@dataclass(frozen=True)
class Function:
    name: str
    first_line: int
    last_line: int

    @property
    def lines(self):
        return self.last_line - self.first_line + 1


def blank_literals(text):
    """The text with comments and literals made blanks, line breaks kept."""
    return _LITERAL.sub(lambda match: re.sub(r'[^\n]', ' ', match.group()), text)


def blank_directives(text):
    """The text with preprocessor lines (and their continuations) made blanks."""
    return re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                  lambda match: re.sub(r'[^\n]', ' ', match.group()), text, flags=re.MULTILINE)


_SCOPE = re.compile(r'\b(?:namespace|class|struct|union|enum|extern)\b')
_MEMBER_INITIALISER = re.compile(r'\)[^;{}]*?[^:]:[^:].*[\w>]\s*$', re.DOTALL)
_NAME = re.compile(r'([~\w:]+|operator\s*[^\s\w(]+|operator\s*\(\))\s*\(')


def _kind(head, outer):
    """What a brace after `head`, inside a brace of kind `outer`, opens."""
    if outer in ('function', 'value'):
        return 'value'
    before_arguments = head.split('(', 1)[0]
    if _SCOPE.search(before_arguments) and not re.search(r'\)\s*(?:const|noexcept|override|final'
                                                         r'|&|\s|->.*)*$', head, re.DOTALL):
        return 'scope'
    if '(' not in head or re.search(r'(?<![=!<>])=\s*$', head) or 'concept ' in head:
        return 'value'
    if _MEMBER_INITIALISER.search(head):
        return 'initialiser'
    return 'function'


def _function_name(head):
    match = _NAME.search(re.sub(r'\btemplate\s*<[^{}]*?>\s', ' ', head))
    return match.group(1) if match else '?'


def functions(text):
    """Every function with a body, by first line of its declaration to its closing brace."""
    text = blank_directives(blank_literals(text))
    found, stack = [], [('scope', 0)]
    head_start, line_of = 0, _line_counter(text)
    for match in re.finditer(r'[{};]|(?:public|private|protected):', text):
        token, at = match.group(), match.start()
        if token == '{':
            kind = _kind(text[head_start:at], stack[-1][0])
            stack.append((kind, head_start))
            if kind != 'initialiser':
                head_start = at + 1
        elif token == '}':
            if len(stack) == 1:
                break  # unbalanced: conditional compilation; nothing more can be told
            kind, start = stack.pop()
            if kind == 'function':
                body = text[start:at]
                first = start + len(body) - len(body.lstrip())
                found.append(Function(_function_name(body), line_of(first), line_of(at)))
            if kind != 'initialiser':
                head_start = at + 1
        elif stack[-1][0] != 'initialiser' and not _inside_parentheses(text, head_start, at):
            head_start = match.end()
    return found


def _inside_parentheses(text, start, end):
    part = text[start:end]
    return part.count('(') > part.count(')')


def _line_counter(text):
    breaks = [match.start() for match in re.finditer('\n', text)]
    import bisect
    return lambda at: bisect.bisect_left(breaks, at) + 1
