"""``mpiparallel show --pipeline`` draws a schedule that would run, and says why another would not."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from mpiparallel.launch.cli import main
from mpiparallel.pipeline import SCHEDULES, make_schedule


def test_it_draws_a_schedule_and_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--pipeline", "zero_bubble_v", "--stages", "2", "--micro-batches", "4"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "ZB-V: step 12.5, of which bubble 0.5; a stage holds activations of 2 micro-batches at most\n"
    )
    assert "\nstage 1  " in out
    assert "\n16 messages between stages\n" in out


def test_as_json_it_tells_what_each_schedule_costs_and_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--pipeline", "all", "--stages", "4", "--micro-batches", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["schedules"]
    assert [one["name"] for one in found] == list(SCHEDULES)
    gpipe = found[0]
    # Forward passes and input gradients of the other stages are waited for, weight gradients are not.
    assert (gpipe["bubble"], gpipe["peaks"]) == (3 * (1.0 + 1.0), [8.0] * 4)
    assert gpipe["actions"][0][0] == "F0"


def test_it_draws_all_schedules_with_the_times_given_into_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = tmp_path / "all.svg"
    assert main(["show", "--pipeline", "all", "--times", "1,1.2,0.8", "--svg", str(svg)]) == 0
    out = capsys.readouterr().out
    for family in SCHEDULES.values():
        assert f"{family.title}: step " in out
        assert f">{family.title}</tspan>" in svg.read_text(encoding="utf-8")
    assert "ZB-H1: step 28.2," in out


def test_of_all_schedules_those_that_the_numbers_do_not_fit_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--pipeline", "all", "--micro-batches", "6", "--chunks", "3"]) == 0
    out = capsys.readouterr().out
    assert out.count("left out: ") == 3
    assert 'left out: schedule "zb_v": rule "2p - 1 micro-batches for p stages"' in out
    assert out.count(": step ") == len(SCHEDULES) - 3


def test_the_picture_in_the_docs_shows_what_was_planned_and_measured_in_colours_that_every_viewer_has() -> None:
    text = (Path(__file__).parents[4] / "docs" / "images" / "pipeline.svg").read_text(encoding="utf-8")
    titles = " ".join("".join(one.itertext()) for one in fromstring(text).iter("{http://www.w3.org/2000/svg}text"))
    for schedule in ("1F1B", "ZB-H1", "ZB-V"):
        assert f"{schedule}, planned" in titles
        assert f"{schedule}, measured" in titles
    assert "hsl(" not in text


def test_it_prints_a_list_that_it_reads_again_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--pipeline", "v_half", "--list"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(str(make_schedule("v_half", 4, 8)))
    path = tmp_path / "own.txt"
    path.write_text(str(make_schedule("v_half", 4, 8)).replace("schedule v_half", "schedule mine"), encoding="utf-8")
    assert main(["show", "--pipeline", str(path)]) == 0
    assert capsys.readouterr().out.startswith("mine: step 30,")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pipeline", "dualpipe"], "--pipeline dualpipe: there is no such file, and there is no schedule"),
        (["--pipeline", "seqpipe"], "cuts micro-batches along the sequence"),
        (["--pipeline", "zb_v", "--micro-batches", "3"], "take 7 or more, or zb_h1"),
        (["--pipeline", "own.txt"], 'own.txt, line 3, field 3 ("F0>x"): is no action'),
        (["--pipeline", "own.txt", "--stages", "4"], "the file says stages, chunks and actions; leave --stages out"),
        (["--pipeline", "1f1b", "--times", "1,1"], '"1,1" is not three or four times of 0 or more'),
        (["--pipeline", "1f1b", "--times", "1,1,nan"], "is not three or four times"),
        (["--pipeline", "1f1b", "--times", "1,one,1"], '"1,one,1" is not three or four times of 0 or more'),
    ],
)
def test_what_it_refuses_is_one_message(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.txt").write_text("micro-batches 1\nparts 0 1\nstage 0: F0>x\n", encoding="utf-8")
    try:
        code: object = main(["show", *words])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "show: give either a script, as in `mpiparallel show train.py -n 8`, or --pipeline"),
        (["train.py", "--pipeline", "1f1b"], "show: give either a script, as in `mpiparallel show train.py -n 8`, or"),
        (["train.py"], "show: for how many ranks? give -n N"),
        (["--pipeline", "own.txt", "--merged-backward"], "actions; leave --merged-backward out"),
        (
            ["--pipeline", "own.txt", "--chunks", "2", "--stages", "4", "--merged-backward"],
            "--pipeline own.txt: the file says stages, chunks and actions; leave --stages, --chunks out",
        ),
        (["--pipeline", "own.txt", "--micro-batches", "4"], "leave --micro-batches out"),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.txt").write_text(str(make_schedule("1f1b", 2, 4)), encoding="utf-8")
    assert main(["show", *words]) == 2
    assert told in capsys.readouterr().err


def test_as_json_the_picture_is_named_and_schedules_left_out_are_told_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = tmp_path / "all.svg"
    words = ["--stages", "4", "--micro-batches", "6", "--svg", str(svg), "--json"]
    assert main(["show", "--pipeline", "all", *words]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["picture"], svg.exists()) == (str(svg), True)
    assert "left out: " in err
    one = told["schedules"][0]
    assert (one["name"], one["stages"], one["micro_batches"], len(one["actions"])) == (next(iter(SCHEDULES)), 4, 6, 4)
    assert main(["show", "--pipeline", "gpipe", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    # Four stages and eight micro-batches where no number is given.
    assert (told["picture"], told["schedules"][0]["stages"], told["schedules"][0]["micro_batches"]) == (None, 4, 8)


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("times", [(1.0, 1.0, 1.0), (2.0, 3.0, 5.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)])
def test_a_step_of_gpipe_takes_eight_micro_batches_and_three_stages_of_waiting(
    times: tuple[float, float, float], merged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--times", ",".join(map(str, times)), *(["--merged-backward"] if merged else [])]
    assert main(["show", "--pipeline", "gpipe", *words, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["schedules"]
    forward, by_input, by_weight = times
    # The next stage waits for the gradient by weights only where the two are merged.
    waited = 3 * (forward + by_input + by_weight * merged)
    assert one["step"] == pytest.approx(8 * sum(times) + waited)


@pytest.mark.parametrize("times", ["1", "1,1", "1,1,1,1,1", "1,-1,1", "inf,1,1", "1,,1", ""])
def test_times_that_are_none_are_refused_with_an_example(times: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["show", "--pipeline", "1f1b", f"--times={times}"])
    assert f'"{times}" is not three or four times of 0 or more; write 1,1.2,0.8,0.1' in capsys.readouterr().err
