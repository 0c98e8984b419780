"""Every exercise accepts its solution and other right answers, and calls every known mistake by its name. `pytest -m lesson3` runs those of one lesson."""
import json
import pathlib

import numpy as np
import pytest
import torch
from scipy.special import entr, logsumexp

from gib_nb import exercises
from gib_nb.exercises.base import COMMON, LESSONS, UNWRITTEN, Exercise, Question, Verdict, exercises_of

EVERY = [(lesson, exercise) for lesson in LESSONS for exercise in exercises_of(lesson).values()]


def marked(cases):
    "Parameters that carry the marker of their lesson, first of each the lesson, last an id."
    return [pytest.param(*rest, marks=getattr(pytest.mark, f"lesson{lesson}"), id=name) for lesson, *rest, name in cases]


functions = pytest.mark.parametrize("exercise", marked((lesson, exercise, exercise.name) for lesson, exercise in EVERY if isinstance(exercise, Exercise)))
questions = pytest.mark.parametrize("question", marked((lesson, exercise, exercise.name) for lesson, exercise in EVERY if isinstance(exercise, Question)))
mistakes = pytest.mark.parametrize("exercise, mistake", marked(
    (lesson, exercise, mistake, f"{exercise.name}-{mistake.__name__}") for lesson, exercise in EVERY if isinstance(exercise, Exercise) for mistake in exercise.mistakes))


def test_every_lesson_has_three_to_five_and_no_name_twice():
    assert all(3 <= len(exercises_of(lesson)) <= 5 for lesson in LESSONS)
    assert len({exercise.name for _, exercise in EVERY}) == len(EVERY) and all(exercise.lesson == lesson for lesson, exercise in EVERY)


@functions
def test_the_solution_is_right(exercise):
    assert exercises.check(exercise.name, exercise.solution)
    assert exercises.check(exercise.name, exercises.solution(exercise.name))
    assert all(holds(exercise.solution) for holds in exercise.properties)


@mistakes
def test_a_mistake_is_called_by_its_name(exercise, mistake):
    verdict = exercises.check(exercise.name, mistake)
    assert not verdict and verdict.mistake == mistake.__name__.replace("_", " ") and verdict.says == mistake.__doc__
    assert len(verdict.says.split()) > 7 and verdict.mistake in repr(verdict)


@functions
def test_what_is_no_answer_yet(exercise):
    check = exercise.check
    assert check(lambda *inputs: None).mistake == UNWRITTEN
    assert check(3.).mistake == "no function" and exercise.name in check(3.).says

    def stumbles(*inputs):
        return inputs[99]
    verdict = check(stumbles)
    assert verdict.mistake == "an error" and "IndexError" in verdict.says and "line 2" in verdict.says
    for answer in (lambda *inputs: float("nan"), lambda *inputs: np.arange(7.), lambda *inputs: "what?", lambda *inputs: 1234.5):
        verdict = check(answer)
        assert not verdict and len(verdict.says.split()) > 5, answer


@functions
def test_each_mistake_differs_from_the_others(exercise):
    "Otherwise the first of two would get the blame for the second."
    values = [exercise.run(mistake) for mistake in exercise.mistakes] + [exercise.right]
    assert not any(exercise.agree(one, other) for i, one in enumerate(values) for other in values[:i])


@questions
def test_a_question_knows_its_answers(question):
    assert question.check(question.answer) and question.check(str(question.answer))
    assert question.check(None).mistake == UNWRITTEN
    for wrong, reply in question.replies.items():
        verdict = question.check(wrong)
        assert not verdict and verdict.says == reply and verdict.mistake
    if question.choices:
        assert set(question.replies) == set(question.choices) - {question.answer}
        assert question.check("z").mistake == "no such choice"
    else:
        assert not question.check(question.answer + 100) and not question.check(question.answer - 100).right and question.check("many").mistake == "no number"


ANSWERS = [  # lesson, exercise, an answer written in another way, the mistake in it or None, id
    (1, "entropy_in_bits", lambda p: entr(p).sum() / np.log(2), None, "scipy"),
    (1, "entropy_in_bits", lambda p: entr(p).sum(), "nats for bits", "scipy in nats"),
    (1, "entropy_in_bits", lambda p: sum(a * np.log2(a) for a in p if a), "the sign", "sign"),
    (1, "conditional_entropy", lambda joint: torch.tensor(sum(row.sum() * entr(row / max(row.sum(), 1e-300)).sum() for row in joint)), None, "rows, as a tensor"),
    (1, "conditional_entropy", lambda joint: (entr(joint).sum() - entr(joint.sum(1)).sum()) / np.log(2), "bits and nats", "bits"),
    (1, "mutual_information", lambda joint: entr(joint.sum(0)).sum() - (entr(joint).sum() - entr(joint.sum(1)).sum()), None, "difference of entropies"),
    (2, "summary_table", lambda encoder, joint: [[sum(encoder[x, t] * joint[x, y] for x in range(3)) for y in range(2)] for t in range(encoder.shape[1])], None, "loops, as lists"),
    (3, "donsker_varadhan", lambda f: np.trace(f) / len(f) - logsumexp(f + np.diag(np.full(len(f), -np.inf))) + np.log(len(f) * (len(f) - 1)), None, "logsumexp"),
    (3, "donsker_varadhan", lambda f: np.trace(f) / len(f) - logsumexp(f + np.diag(np.full(len(f), -np.inf))) + np.log(len(f)), "wrong normaliser", "the paper's N"),
    (3, "donsker_varadhan", lambda f: logsumexp(f + np.diag(np.full(len(f), -np.inf))) - np.log(len(f) * (len(f) - 1)) - np.trace(f) / len(f), "the sign", "sign"),
    (3, "donsker_varadhan", lambda f: np.trace(f) / len(f) - logsumexp(f * (1 - np.eye(len(f)))) + np.log(len(f) * (len(f) - 1)), None, "masked before exp, stably"),
    (5, "mean_readout", lambda x, batch, N: torch.nn.functional.one_hot(torch.tensor(batch)).double().T @ torch.tensor(x.copy()) / torch.bincount(torch.tensor(batch))[:, None], None, "torch"),
    (6, "edge_table", lambda S, edges: sum(np.outer(S[u], S[v]) for u, v in edges.T), None, "one edge after the other"),
    (6, "connectivity_loss", lambda S, edges: _dense_loss(S, edges), None, "dense"),
    (7, "ramp", lambda epoch, warmup, length: float(np.clip((epoch + 1 - warmup) / (1 + length), 0, 1)), None, "clip"),
    (9, "roc_auc", lambda score, real: np.mean([np.sign(a - b) / 2 + .5 for a in score[real] for b in score[~real]]), None, "sign of differences"),
    (10, "majority_accuracy", lambda train, test: np.mean(test == max(sorted(set(train)), key=list(train).count)), None, "count"),
]


def _dense_loss(S, edges):
    A = np.zeros((len(S), len(S)))
    A[edges[0], edges[1]] = 1
    M = S.T @ A @ S
    shares = np.array([row / row.sum() if row.sum() else row for row in M])
    return np.linalg.norm(shares - np.eye(2))


@pytest.mark.parametrize("name, answer, mistake", marked(ANSWERS[:10] + ANSWERS[11:]))
def test_answers_written_by_others(name, answer, mistake):
    verdict = exercises.check(name, answer)
    assert (verdict.right, verdict.mistake) == (mistake is None, mistake), verdict


@pytest.mark.lesson3
def test_what_is_not_a_known_mistake_still_gets_a_reason():
    "A mixture of two mistakes is recognised by neither; a property and an example are told."
    verdict = exercises.check("donsker_varadhan", ANSWERS[10][2])
    assert not verdict and "same score" in verdict.says and "expected" in verdict.says


@pytest.mark.lesson3
def test_two_mistakes_at_once_are_told_one_after_the_other():
    "The exponential overflows in one case; what is wrong in all others is said first."
    def naive(scores, divisor=lambda N: N):
        others = scores[~np.eye(len(scores), dtype=bool)]
        return scores.diagonal().mean() - np.log(np.exp(others).sum() / divisor(len(scores)))
    assert exercises.check("donsker_varadhan", naive).mistake == "wrong normaliser"
    assert exercises.check("donsker_varadhan", lambda scores: naive(scores, lambda N: N * (N - 1))).mistake == "exponential overflows"
    assert exercises.check("entropy_in_bits", lambda p: -(p * np.log(p)).sum()).mistake == "nats for bits"


@pytest.mark.lesson6
def test_an_answer_that_writes_into_its_input():
    def divides_in_place(M):
        M /= np.maximum(M.sum(1, keepdims=True), 1e-9)
        return M
    assert exercises.check("row_shares", divides_in_place).mistake == "the input is changed"


def test_patterns_are_told():
    demo = Exercise(1, lambda x: x ** 2, cases=((1.,), (2.,), (3.,)))
    assert "always 3 times" in demo.check(lambda x: 3 * x * x).says and "always 5 above" in demo.check(lambda x: x * x + 5).says
    assert "always 7, whatever" in demo.check(lambda x: 7.).says and "x = 2 expected 4 (got 3)" in demo.check(lambda x: 2 * x - 1 + (x == 3)).says
    assert demo.check(lambda x: -x * x).mistake == "the sign" and demo.check(lambda x: x * x / np.log(2)).mistake == "bits and nats"
    assert all(common.__doc__ for common in COMMON)


def test_names_are_looked_up_with_help():
    with pytest.raises(ValueError, match="such as donsker_varadhan.*got 'donsker'"):
        exercises.check("donsker", None)
    with pytest.raises(ValueError, match="question"):
        exercises.solution("two_pairs")
    with pytest.raises(ValueError, match="use check"):
        exercises.ask("ramp")


def test_what_a_reader_sees_is_escaped():
    shown = Verdict("x", False, "<script>1</script>", "a < b")._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "A &lt; b." in shown


def test_a_question_as_a_widget_answers_by_observing():
    question = exercises.ask("two_pairs")
    _, entry, reply = question.widget.children
    entry.value = "1.3069"
    assert "✗" in reply.value and "mean" in reply.value
    entry.value = "2,0"
    assert "✓" in reply.value
    entry.value = ""
    assert "Not written yet" in reply.value
    choice = exercises.ask("too_many_steps").widget.children
    choice[1].value = "b"
    assert "✓" in choice[2].value
    bundle = question._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle and "<details>" in bundle["text/html"]


def test_solutions_are_shown_as_source():
    found = exercises.solution("donsker_varadhan")
    assert repr(found).startswith("def donsker_varadhan(scores)") and "donsker" in found._repr_html_()
    assert found(np.eye(2)) == 1
