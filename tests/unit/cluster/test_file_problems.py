"""All problems of a file come in one message, by their lines, and many of them do not fill the screen."""

from __future__ import annotations

import pytest

from mpiparallel.cluster.file_problems import FileProblem, FileProblems, MalformedFileError, refuse


def with_problems(count: int) -> FileProblems:
    problems = FileProblems()
    for number in range(count):
        problems.add(f"value[{number}]", "is odd; write another")
    return problems


def refusal(problems: FileProblems, lines: dict[str, int] | None = None) -> MalformedFileError:
    with pytest.raises(MalformedFileError) as caught:
        refuse("table.json", problems, None if lines is None else lambda paths: lines)
    return caught.value


def test_a_file_without_problems_is_not_refused() -> None:
    refuse("table.json", FileProblems())
    assert not FileProblems().is_full


def test_problems_come_by_their_lines_and_those_without_one_before() -> None:
    problems = FileProblems()
    problems.add("status", "is odd", None)
    problems.add("", "ends here", 7)
    problems.add("list[1]", "is missing")
    problems.add("none", "has no place")
    error = refusal(problems, {"status": 9, "list[1]": 2})
    lines = (
        "table.json: none: has no place",
        "table.json:2: list[1]: is missing",
        "table.json:7: ends here",
        "table.json:9: status: is odd",
    )
    assert (error.source, error.lines, error.count) == ("table.json", lines, 4)
    assert str(error).splitlines() == ["table.json: 4 problems", *lines]


def test_only_paths_that_are_there_are_looked_for() -> None:
    asked: list[list[str]] = []
    problems = FileProblems()
    problems.add("", "is no table")
    problems.add("status", "is odd")

    def lines(paths: list[str]) -> dict[str, int]:
        asked.append(paths)
        return {}

    with pytest.raises(MalformedFileError):
        refuse("table.json", problems, lines)
    assert asked == [["status"]]


@pytest.mark.parametrize(("count", "shown", "more"), [(1, 1, 0), (2, 2, 0), (20, 20, 0), (21, 20, 1), (1500, 20, 1480)])
def test_twenty_problems_are_shown_and_the_others_counted(count: int, shown: int, more: int) -> None:
    error = refusal(with_problems(count))
    told = str(error).splitlines()
    if count > 1:
        assert told.pop(0) == f"table.json: {count} problems"
    if more:
        assert told.pop() == f"and {more} more"
    assert told == [f"table.json: value[{number}]: is odd; write another" for number in range(shown)]
    assert error.count == count


@pytest.mark.parametrize(("count", "kept", "is_full"), [(999, 999, False), (1000, 1000, True), (1001, 1000, True)])
def test_a_thousand_problems_are_kept(count: int, kept: int, is_full: bool) -> None:
    problems = with_problems(count)
    assert (len(problems), len(problems.kept), problems.is_full) == (count, kept, is_full)


def test_a_problem_of_the_whole_file_has_no_path() -> None:
    assert str(FileProblem("", "is empty")) == "is empty"
    assert str(FileProblem("a[0]", "is odd")) == "a[0]: is odd"
