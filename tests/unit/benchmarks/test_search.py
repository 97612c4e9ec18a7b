from __future__ import annotations

import re

import search


def test_a_search_has_a_line_with_what_it_took_and_what_it_found(capsys, monkeypatch) -> None:
    words = ["search.py", "--layers", "1", "--ranks", "2", "--modes", "recursive_programming", "optimal"]
    monkeypatch.setattr("sys.argv", words)
    search.main()
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split()[4] for row in rows] == ["recursive_programming", "optimal"]
    assert all(re.search(r"Transformer, 1 layers +2 .* [\d.]+ +[\d.]+ +[\d.]+ +[\d.]+% +[\d.]+$", row) for row in rows)
