"""From text to the parts of a phrase, by the grammar."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

from lark import Lark
from lark.exceptions import UnexpectedToken, VisitError
from lark.lexer import Lexer, Token

from go_scheduler.triggers.phrases.phrase_words import PhraseError, Word, read_words
from go_scheduler.triggers.phrases.reading import PartsReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark.common import LexerConf

    from go_scheduler.triggers.phrases.parts import Phrase

# The terminals in words, for the message that tells which may stand at a place.
_EXPECTED = {
    "NUMBER": "a number",
    "UNIT": "a unit such as minutes",
    "WEEKDAY": "a day of the week",
    "ORDINAL": "an ordinal such as first",
    "MONTH": "a month",
    "TIME": "a time such as 09:00 or 5pm",
    "DATE": "a date such as 2030-12-31",
    "NAME": "the name of a calendar",
    "EVERY": "'every'",
    "AT": "'at'",
    "OF": "'of'",
    "OR": "'or'",
    "TO": "'to'",
    "$END": "the end",
}


def read_phrase(text: str) -> Phrase:
    """The parts of a phrase.

    Raises:
        PhraseError: The grammar has no such phrase.
    """
    words = read_words(text)
    if not words:
        raise PhraseError("it is empty; write one such as 'every weekday at 09:00'")
    try:
        tree = _parser().parse(words)
        return cast("Phrase", PartsReader().transform(tree))
    except UnexpectedToken as error:
        raise _unexpected(error, text) from None
    except VisitError as error:
        raise error.orig_exc from None


def _unexpected(error: UnexpectedToken, text: str) -> PhraseError:
    expected = [words for type, words in _EXPECTED.items() if type in error.accepts]
    known = f"expected {', '.join(expected[:-1])}{' or ' if expected[:-1] else ''}"
    known += expected[-1] if expected else ""
    word = cast("object", error.token.value)
    if not expected:
        known = "write it as another phrase"
    if isinstance(word, Word) and word.type == "ALSO":
        known = "two phrases are joined by 'or'"
    if isinstance(word, Word):
        return PhraseError(f'"{word.text}" does not fit there: {known}', word.start)
    return PhraseError(f"it ends too early: {known}", len(text))


class PhraseLexer(Lexer):
    """Hands the words of a phrase to the parser.

    Args:
        config: The parser's; nothing of it is needed.
    """

    def __init__(self, config: LexerConf) -> None:
        del config

    def lex(self, words: Sequence[Word]) -> Iterator[Token]:  # type: ignore[override]
        """One token a word, whose value is the word."""
        for word in words:
            yield Token(word.type, word, word.start)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", lexer=PhraseLexer)
