"""The simple commands of a shell script, as far as they can be known without running it.

Containers are started with `sh -c "..."` more often than not, and the flags that matter stand inside. This reads words
as a POSIX shell would split them; it decides no condition, runs nothing, and accepts any text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

UNKNOWN = "\0"
"""Stands in a word for a part that only the running shell knows."""

LONGEST_SCRIPT = 2**16

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_WITH_DEFAULT = re.compile(r"([A-Za-z_]\w*|[0-9])(?::?[-=](.*))?", re.ASCII | re.DOTALL)
_ASSIGNING = frozenset({"export", "declare", "local", "readonly", "typeset"})


def simple_commands(
    script: str, variables: Mapping[str, str], arguments: Sequence[str] = ()
) -> tuple[tuple[str, ...], ...]:
    """Return the words of each command of a script, in order, without comments, redirections and separators.

    Parameters
    ----------
    variables
        Environment; the script's own assignments are added on the way, as if every line ran.
    arguments
        `$1`, `$2`, ... of the script.
    """
    reader = _Reader(script[:LONGEST_SCRIPT], dict(variables), tuple(arguments))
    reader.read()
    return tuple(reader.commands)


def is_assignment(word: str) -> bool:
    """Return whether a word at the head of a command sets a variable: `NAME=value`."""
    return _ASSIGNMENT.fullmatch(word) is not None


class _Reader:
    """One pass over a script, from left to right."""

    def __init__(self, text: str, variables: dict[str, str], arguments: tuple[str, ...]) -> None:
        self.text = text
        self.variables = variables
        self.arguments = arguments
        self.commands: list[tuple[str, ...]] = []
        self._words: list[str] = []
        self._word: list[str] | None = None
        self._is_target = False

    def read(self) -> None:
        at = 0
        while at < len(self.text):
            at = self._step(at)
        self._end_command()

    def _step(self, at: int) -> int:
        """Read what begins at a position outside of quotes; return where the next thing begins."""
        text, char = self.text, self.text[at]
        if char == "\\":
            return self._escaped(at)
        if char == "'":
            return self._single_quoted(at)
        if char == '"':
            return self._double_quoted(at + 1)
        if char in "$`":
            return self._expansion(at, quoted=False)
        if char == "#" and self._word is None:
            end = text.find("\n", at)
            return len(text) if end < 0 else end
        if char in "<>" or text.startswith("&>", at):
            return self._redirection(at)
        if char in "\n;&|()":
            self._end_command()
        elif char in " \t\r":
            self._end_word()
        else:
            self._add(char)
        return at + 1

    def _escaped(self, at: int) -> int:
        if self.text.startswith("\\\r\n", at):
            return at + 3
        following = self.text[at + 1 : at + 2]
        if following != "\n":
            self._add(following)
        return at + 2

    def _single_quoted(self, at: int) -> int:
        end = self.text.find("'", at + 1)
        end = len(self.text) if end < 0 else end
        self._add(self.text[at + 1 : end])
        return end + 1

    def _double_quoted(self, at: int) -> int:
        text = self.text
        self._add("")
        while at < len(text) and text[at] != '"':
            if text[at] in "$`":
                at = self._expansion(at, quoted=True)
            elif text[at] == "\\" and text[at + 1 : at + 2] in tuple('$`"\\\n'):
                self._add(text[at + 1].strip("\n"))
                at += 2
            else:
                self._add(text[at])
                at += 1
        return at + 1

    def _redirection(self, at: int) -> int:
        if self._word is not None and "".join(self._word).isdigit():
            self._word = None
        self._end_word()
        while self.text[at : at + 1] in tuple("<>&|"):
            at += 1
        self._is_target = True
        return at

    def _expansion(self, at: int, *, quoted: bool) -> int:
        """Read `$NAME`, `${NAME:-default}`, `$1`, `$@`, `$(command)` or a command in backquotes."""
        text = self.text
        if text[at] == "`":
            end = text.find("`", at + 1)
            self._add(UNKNOWN)
            return len(text) if end < 0 else end + 1
        following = text[at + 1 : at + 2]
        if following == "(":
            self._add(UNKNOWN)
            return self._closing(at + 1, "(", ")")
        if following == "{":
            end = self._closing(at + 1, "{", "}")
            self._add_value(self._with_default(text[at + 2 : end - 1]), quoted=quoted)
            return end
        if following in ("@", "*"):
            for number, argument in enumerate(self.arguments):
                if number:
                    self._end_word()
                self._add(argument)
            return at + 2
        name = _NAME.match(text, at + 1)
        if name:
            self._add_value(self.variables.get(name[0], UNKNOWN), quoted=quoted)
            return name.end()
        if following.isdigit() and following.isascii():
            self._add_value(self._argument(following), quoted=quoted)
            return at + 2
        self._add(UNKNOWN if following in ("?", "$", "#", "!") else "$")
        return at + (2 if following in ("?", "$", "#", "!") else 1)

    def _closing(self, at: int, opening: str, closing: str) -> int:
        depth = 0
        for position in range(at, len(self.text)):
            char = self.text[position]
            depth += (char == opening) - (char == closing)
            if not depth:
                return position + 1
        return len(self.text)

    def _with_default(self, inside: str) -> str:
        match = _WITH_DEFAULT.fullmatch(inside)
        if match is None:
            return UNKNOWN
        name, default = match[1], match[2]
        value = self._argument(name) if name.isdigit() else self.variables.get(name, UNKNOWN)
        if value != UNKNOWN or default is None:
            return value
        return UNKNOWN if "$" in default or "`" in default else default.strip("\"'")

    def _argument(self, number: str) -> str:
        position = int(number)
        return self.arguments[position - 1] if 0 < position <= len(self.arguments) else UNKNOWN

    def _add_value(self, value: str, *, quoted: bool) -> None:
        if quoted:
            self._add(value)
            return
        parts = value.split()
        if value[:1].isspace():
            self._end_word()
        for number, part in enumerate(parts):
            if number:
                self._end_word()
            self._add(part)
        if parts and value[-1].isspace():
            self._end_word()

    def _add(self, piece: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(piece)

    def _end_word(self) -> None:
        if self._word is None:
            return
        word, self._word = "".join(self._word), None
        if self._is_target:
            self._is_target = False
        else:
            self._words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        self._is_target = False
        words, self._words = self._words, []
        if not words:
            return
        assigned = [_ASSIGNMENT.fullmatch(word) for word in (words[1:] if words[0] in _ASSIGNING else words)]
        if words[0] in _ASSIGNING or all(assigned):
            self.variables.update({match[1]: match[2] for match in assigned if match})
        else:
            self.commands.append(tuple(words))
