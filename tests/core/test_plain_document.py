"""A stranger's text, read into plain values or refused in words, in bounded time."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.plain_document import MAX_BYTES, MAX_DEPTH, DocumentError, parse_document


def value_of(text: str) -> object:
    document = parse_document(text.encode())
    assert document.problems == ()
    return document.value


def problems_of(text: str) -> list[tuple[tuple[str | int, ...], str]]:
    return [(problem.path, problem.wrong) for problem in parse_document(text.encode()).problems]


def refusal_of(text: str | bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_document(text.encode() if isinstance(text, str) else text)
    return str(caught.value)


@pytest.mark.parametrize(
    "text", ["no", "Yes", "on", "12:30:00", "2026-01-31", "012", "0x1f", "1_000", "+5", "NaN", "y"]
)
def test_what_yaml_1_1_would_turn_into_something_else_stays_text(text: str) -> None:
    assert value_of(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-2", -2),
        ("1e-4", 1e-4),
        ("0.5", 0.5),
        (".5", 0.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
    ],
)
def test_a_plain_number_or_word_of_json_is_what_it_is_in_json(text: str, value: object) -> None:
    got = value_of(f"a: {text}")
    assert got == {"a": value}
    assert isinstance(got, dict)
    assert type(got["a"]) is type(value)


def test_quotes_make_text_of_anything() -> None:
    assert value_of("a: '3'\nb: \"true\"\n") == {"a": "3", "b": "true"}


def test_yaml_and_json_of_the_same_content_read_the_same() -> None:
    assert value_of("a: [1, {b: x}]\nc: 1.5\n") == value_of('{"a": [1, {"b": "x"}], "c": 1.5}')


def test_a_flow_mapping_is_yaml_although_it_begins_like_json() -> None:
    assert value_of("{a: 1, b: [x, y]}") == {"a": 1, "b": ["x", "y"]}


def test_keys_are_text_whatever_they_look_like() -> None:
    assert value_of("1: a\ntrue: b\n") == {"1": "a", "true": "b"}


def test_a_byte_order_mark_is_not_part_of_the_document() -> None:
    assert parse_document(b"\xef\xbb\xbfa: 1").value == {"a": 1}


def test_lines_are_known_for_yaml() -> None:
    document = parse_document(b"a: 1\nb:\n  - c: 2\n  - c: 3\n")
    assert document.lines[("b", 1, "c")] == 4


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", '{"a": 1, "a": 2}'])
def test_a_name_given_twice_is_a_problem(text: str) -> None:
    assert len(problems_of(text)) == 1


def test_the_same_name_in_two_places_is_none() -> None:
    assert problems_of("a: {x: 1}\nb: {x: 1}\n") == []
    assert problems_of('{"a": {"x": 1}, "b": {"x": 1}}') == []


def test_anchors_aliases_and_tags_are_problems_beside_which_the_rest_is_read() -> None:
    document = parse_document(b"a: &x 1\nb: *x\nc: !!python/object:os.system {}\nd: 4\n")
    assert [problem.path for problem in document.problems] == [("a",), ("b",), ("c",)]
    assert document.value["d"] == 4


def test_aliases_that_would_expand_to_gigabytes_cost_nothing() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    before = time.perf_counter()
    assert parse_document("\n".join(lines).encode()).problems
    assert time.perf_counter() - before < 2


@pytest.mark.parametrize(
    "text", ["a: .nan", "a: -.inf", "a: 1e999", '{"a": 1e999}', f"a: {'9' * 5000}", f'{{"a": {"9" * 5000}}}']
)
def test_a_number_that_is_not_finite_or_absurdly_long_is_a_problem(text: str) -> None:
    assert [path for path, _ in problems_of(text)] == [("a",)]


def test_json_words_for_no_number_are_refused() -> None:
    assert "NaN" in refusal_of('{"a": NaN}')


@pytest.mark.parametrize("text", ['a: "\\ud800"', '{"a": "\\ud800"}', 'a: "x\\0y"', '{"a": "x\\u0000y"}'])
def test_characters_that_are_no_text_are_a_problem(text: str) -> None:
    assert [path for path, _ in problems_of(text)] == [("a",)]


def test_text_that_is_too_long_is_refused_with_the_limit() -> None:
    assert "262,144" in refusal_of(b"#" + b"x" * 10_000_000)
    assert value_of("a: 1\n#" + "x" * (MAX_BYTES - 10)) == {"a": 1}


def test_text_that_is_not_utf_8_is_refused_with_its_line() -> None:
    assert "line 2" in refusal_of(b"a: 1\nb: \xff\n")


def test_broken_yaml_says_where() -> None:
    assert "line 2, column 4" in refusal_of("a: 1\nb: ]\n")


def test_broken_json_says_where() -> None:
    assert "line 2" in refusal_of('{"a": 1,\n "b" 2}')


def test_a_second_document_is_refused_and_a_single_marked_one_is_not() -> None:
    assert "second document" in refusal_of("a: 1\n---\nb: 2\n")
    assert value_of("---\na: 1\n...\n") == {"a": 1}


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff"])
def test_an_empty_file_is_refused(text: str) -> None:
    assert "empty" in refusal_of(text)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused(opening: str) -> None:
    assert "deep" in refusal_of(opening * 10_000)


def test_deep_json_is_refused_and_a_reasonable_depth_is_read() -> None:
    assert "deep" in refusal_of('{"a":' * 100_00 + "1" + "}" * 100_00)
    assert "deep" in refusal_of('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1))
    assert value_of('{"a":' * (MAX_DEPTH - 1) + "1" + "}" * (MAX_DEPTH - 1))


def test_too_many_values_are_refused() -> None:
    assert "more than 20,000 values" in refusal_of("\n".join(["- 1"] * 30_000))
    assert "more than 20,000 values" in refusal_of('{"a": [' + "1," * 30_000 + "1]}")


@pytest.mark.parametrize(
    "text",
    [
        "a" * MAX_BYTES,
        "'" + "a" * (MAX_BYTES - 1),
        "[" * MAX_BYTES,
        "? " * (MAX_BYTES // 2),
        "&a " * (MAX_BYTES // 3),
        "{a: 1, " * (MAX_BYTES // 7),
        "a:\n " * (MAX_BYTES // 4),
        "# x\n" * (MAX_BYTES // 4),
        "!" * MAX_BYTES,
        "|\n" + " \n" * (MAX_BYTES // 2 - 2),
        '"' + "\\x41" * (MAX_BYTES // 4 - 1),
    ],
    ids=lambda text: text[:6],
)
def test_no_text_of_the_allowed_size_takes_long(text: str) -> None:
    before = time.perf_counter()
    with suppress(DocumentError):
        parse_document(text.encode())
    # Generous for a busy machine; a quadratic reading would take minutes.
    assert time.perf_counter() - before < 10


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
)
def test_any_bytes_are_read_or_refused_in_words(text: bytes) -> None:
    try:
        parse_document(text)
    except DocumentError as error:
        assert error.problem.wrong
        assert error.problem.right


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"%@`#?,~\n \t0123.eE\\xuU<=", max_size=60))
def test_any_heap_of_yaml_signs_is_read_or_refused_in_words(text: str) -> None:
    try:
        parse_document(text.encode())
    except DocumentError as error:
        assert error.problem.wrong
        assert error.problem.right
