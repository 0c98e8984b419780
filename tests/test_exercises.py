"""Every exercise accepts its solution and other right answers, and calls every known mistake by its name. `pytest -m lesson3` runs those of one lesson."""

import html
import pathlib
import re
import sys
import threading
import time
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.special import entr, logsumexp

from gib_nb import exercises
from gib_nb.exercises import attempt
from gib_nb.exercises.attempt import Attempt
from gib_nb.exercises.base import (
    COMMON,
    LESSONS,
    UNWRITTEN,
    Exercise,
    Question,
    Verdict,
    check,
    exercises_of,
    guess,
    guesses_of,
)
from gib_nb.exercises.numbers import FORMS, read_number
from gib_nb.information.exact import mutual_information

EVERY = [(lesson, exercise) for lesson in LESSONS for exercise in exercises_of(lesson).values()]


def marked(cases):
    "Parameters that carry the marker of their lesson, first of each the lesson, last an id."
    return [
        pytest.param(*rest, marks=getattr(pytest.mark, f"lesson{lesson}"), id=name) for lesson, *rest, name in cases
    ]


functions = pytest.mark.parametrize(
    "exercise",
    marked((lesson, exercise, exercise.name) for lesson, exercise in EVERY if isinstance(exercise, Exercise)),
)
questions = pytest.mark.parametrize(
    "question",
    marked((lesson, exercise, exercise.name) for lesson, exercise in EVERY if isinstance(exercise, Question)),
)
mistakes = pytest.mark.parametrize(
    "exercise, mistake",
    marked(
        (lesson, exercise, mistake, f"{exercise.name}-{mistake.__name__}")
        for lesson, exercise in EVERY
        if isinstance(exercise, Exercise)
        for mistake in exercise.mistakes
    ),
)


def test_every_lesson_has_three_to_five_and_no_name_twice():
    assert all(3 <= len(exercises_of(lesson)) <= 5 for lesson in LESSONS)
    assert len({exercise.name for _, exercise in EVERY}) == len(EVERY) and all(
        exercise.lesson == lesson for lesson, exercise in EVERY
    )


@functions
def test_the_solution_is_right(exercise):
    assert exercises.check(exercise.name, exercise.solution)
    assert exercises.check(exercise.name, exercises.solution(exercise.name))


@functions
def test_a_property_says_the_value_of_its_case(exercise):
    for case in exercise.properties:
        assert np.allclose(exercise.solution(*case()), float(re.search(r"must be ([\d.]+)", case.__doc__)[1]))


@functions
def test_a_solution_can_be_pasted(exercise):
    "Where its lesson has imported NumPy, and in lesson 2 the mutual information."
    room = {"np": np, "mutual_information": mutual_information}
    exec(repr(exercises.solution(exercise.name)), room)
    assert exercise.check(room[exercise.name])


@mistakes
def test_a_mistake_is_called_by_its_name(exercise, mistake):
    verdict = exercises.check(exercise.name, mistake)
    assert not verdict and verdict.mistake == mistake.__name__.replace("_", " ") and verdict.message == mistake.__doc__
    assert len(verdict.message.split()) > 7 and verdict.mistake in repr(verdict)


@functions
def test_what_is_no_answer_yet(exercise):
    check = exercise.check
    assert check(lambda *inputs: None).mistake == UNWRITTEN
    assert check(3.0).mistake == "no function" and exercise.name in check(3.0).message

    def stumbles(*inputs):
        return inputs[99]

    verdict = check(stumbles)
    assert verdict.mistake == "an error" and "IndexError" in verdict.message and "line 2" in verdict.message
    for answer in (
        lambda *inputs: float("nan"),
        lambda *inputs: np.arange(7.0),
        lambda *inputs: "what?",
        lambda *inputs: 1234.5,
    ):
        verdict = check(answer)
        assert not verdict and len(verdict.message.split()) > 5, answer


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
        assert not verdict and verdict.message == reply and verdict.mistake
    if question.choices:
        assert set(question.replies) == set(question.choices) - {question.answer}
        assert question.check("z").mistake == "no such choice"
    else:
        assert (
            not question.check(question.answer + 100)
            and not question.check(question.answer - 100).right
            and question.check("many").mistake == "no number"
        )


ANSWERS = [  # lesson, exercise, an answer written in another way, the mistake in it or None, id
    (1, "entropy_in_bits", lambda p: entr(p).sum() / np.log(2), None, "scipy"),
    (1, "entropy_in_bits", lambda p: entr(p).sum(), "nats for bits", "scipy in nats"),
    (1, "entropy_in_bits", lambda p: sum(a * np.log2(a) for a in p if a), "the sign", "sign"),
    (
        1,
        "conditional_entropy",
        lambda joint: torch.tensor(sum(row.sum() * entr(row / max(row.sum(), 1e-300)).sum() for row in joint)),
        None,
        "rows, as a tensor",
    ),
    (
        1,
        "conditional_entropy",
        lambda joint: (entr(joint).sum() - entr(joint.sum(1)).sum()) / np.log(2),
        "bits and nats",
        "bits",
    ),
    (
        1,
        "mutual_information",
        lambda joint: entr(joint.sum(0)).sum() - (entr(joint).sum() - entr(joint.sum(1)).sum()),
        None,
        "difference of entropies",
    ),
    (
        2,
        "summary_table",
        lambda encoder, joint: [
            [sum(encoder[x, t] * joint[x, y] for x in range(3)) for y in range(2)] for t in range(encoder.shape[1])
        ],
        None,
        "loops, as lists",
    ),
    (
        3,
        "donsker_varadhan",
        lambda f: (
            np.trace(f) / len(f) - logsumexp(f + np.diag(np.full(len(f), -np.inf))) + np.log(len(f) * (len(f) - 1))
        ),
        None,
        "logsumexp",
    ),
    (
        3,
        "donsker_varadhan",
        lambda f: np.trace(f) / len(f) - logsumexp(f + np.diag(np.full(len(f), -np.inf))) + np.log(len(f)),
        "wrong normalizer",
        "the paper's N",
    ),
    (
        3,
        "donsker_varadhan",
        lambda f: (
            logsumexp(f + np.diag(np.full(len(f), -np.inf))) - np.log(len(f) * (len(f) - 1)) - np.trace(f) / len(f)
        ),
        "the sign",
        "sign",
    ),
    (
        3,
        "donsker_varadhan",
        lambda f: np.trace(f) / len(f) - logsumexp(f * (1 - np.eye(len(f)))) + np.log(len(f) * (len(f) - 1)),
        "masked before the exponential",
        "masked before exp, stably",
    ),
    (
        5,
        "mean_readout",
        lambda x, batch, N: (
            torch.nn.functional.one_hot(torch.tensor(batch)).double().T
            @ torch.tensor(x.copy())
            / torch.bincount(torch.tensor(batch))[:, None]
        ),
        None,
        "torch",
    ),
    (6, "edge_table", lambda S, edges: sum(np.outer(S[u], S[v]) for u, v in edges.T), None, "one edge after the other"),
    (6, "connectivity_loss", lambda S, edges: _dense_loss(S, edges), None, "dense"),
    (
        7,
        "loss_weight",
        lambda epoch, pretrain_epochs, rampup_epochs: float(
            np.clip((epoch + 1 - pretrain_epochs) / (1 + rampup_epochs), 0, 1)
        ),
        None,
        "clip",
    ),
    (
        9,
        "roc_auc",
        lambda score, real: np.mean([np.sign(a - b) / 2 + 0.5 for a in score[real] for b in score[~real]]),
        None,
        "sign of differences",
    ),
    (
        10,
        "majority_accuracy",
        lambda train, test: np.mean(test == max(sorted(set(train)), key=list(train).count)),
        None,
        "count",
    ),
]


def _by_share(p, threshold, low, high):
    share = (p > threshold).mean()
    return "all in" if share > high else "none in" if share < low else None


def _greedy(bonds, chosen):
    components = []
    for atom in sorted(chosen):
        for component in components:
            if any({atom, other} in map(set, bonds) for other in component):
                component.append(atom)
                break
        else:
            components.append([atom])
    return max(components, key=len)


def _rounds(bonds, chosen, atom, number):
    component = {atom}
    for u, v in bonds * number:
        if u in chosen and v in chosen and (u in component or v in component):
            component |= {u, v}
    return sorted(component)


def _of_networkx(graph):
    return sorted(max(nx.connected_components(graph), key=len))


def _two_nearest(fraction, fractions, biases):
    i, k = np.abs(fractions - fraction).argsort()[:2]
    return biases[i] + (biases[k] - biases[i]) * (fraction - fractions[i]) / (fractions[k] - fractions[i])


def _dense_loss(S, edges, divisor=lambda total: total or 1):
    A = np.zeros((len(S), len(S)))
    A[edges[0], edges[1]] = 1
    M = S.T @ A @ S
    shares = np.array([row / divisor(row.sum()) for row in M])
    return np.linalg.norm(shares - np.eye(2))


ONCE_ACCEPTED = [  # lesson, exercise, a wrong answer that earlier cases let pass, id
    (
        1,
        "conditional_entropy",
        lambda joint: sum(row.sum() * entr(row / row.sum()).sum() for row in joint if not (row == 0).any()),
        "skips rows",
    ),
    (
        1,
        "conditional_entropy",
        lambda joint: (
            -sum(
                cell * np.log(cell / row.sum())
                for row in joint
                for cell in row[: np.flatnonzero(np.r_[row, 0] == 0)[0]]
            )
        ),
        "stops at an empty cell",
    ),
    (
        3,
        "donsker_varadhan",
        lambda f: np.trace(f) / len(f) - f.max() - np.log(np.exp(f[~np.eye(len(f), dtype=bool)] - f.max()).mean()),
        "largest of the whole table",
    ),
    (
        3,
        "donsker_varadhan",
        lambda f: np.trace(f) / len(f) - logsumexp(np.where(np.eye(len(f)), -100, f)) + np.log(len(f) * (len(f) - 1)),
        "masks with −100",
    ),
    (
        5,
        "label_bound",
        lambda q, y: max(0, entr(np.bincount(y) / len(y)).sum() + np.log(q[np.arange(len(y)), y]).mean()),
        "clips",
    ),
    (
        6,
        "row_normalize",
        lambda M: M / M.sum(1, keepdims=True) if M[1].any() else np.array([M[0] / M[0].sum(), [0, 0]]),
        "only the second row may be empty",
    ),
    (6, "connectivity_loss", lambda S, edges: _dense_loss(S, edges, lambda total: max(total, 1)), "at least one edge"),
    (7, "collapse", lambda p, threshold=0.5: _by_share(p, threshold, 0.4, 0.6), "most of them"),
    (7, "collapse", lambda p, threshold=0.5: _by_share(p, threshold, 0.1, 0.9), "nine in ten"),
    (
        7,
        "collapse",
        lambda p, threshold=0.5: _by_share(p, threshold, np.nextafter(0.01, 1), np.nextafter(0.99, 0)),
        "exactly 99 %",
    ),
    (
        7,
        "best_attempt",
        lambda loss, score, bad: np.where(bad[:-1] & ~bad.all(), np.inf, loss[:-1]).argmin(),
        "forgets the last",
    ),
    (8, "largest_component", _greedy, "components never joined"),
    (
        8,
        "largest_component",
        lambda bonds, chosen: max((_rounds(bonds, chosen, atom, 1) for atom in sorted(chosen)), key=len),
        "bonds once",
    ),
    (
        8,
        "largest_component",
        lambda bonds, chosen: max((_rounds(bonds, chosen, atom, 2) for atom in sorted(chosen)), key=len),
        "bonds twice",
    ),
    (8, "largest_component", lambda bonds, chosen: _of_networkx(nx.Graph(bonds).subgraph(chosen)), "atoms in no bond"),
    (8, "bias_at", _two_nearest, "two nearest"),
    (
        9,
        "line_graph",
        lambda edges: [
            [i, j]
            for i, (a, b) in enumerate(edges)
            for j, (c, d) in enumerate(edges)
            if i < j and (a == c or b == d or b == c)
        ],
        "three comparisons",
    ),
    (10, "majority_accuracy", lambda train, test: np.mean(test == train[0]), "first label"),
    (
        10,
        "majority_accuracy",
        lambda train, test: np.mean(test == max(train, key=lambda label: ((train == label).sum(), label))),
        "largest label",
    ),
    (
        10,
        "majority_accuracy",
        lambda train, test: max(
            np.mean(test == label) for label in train if (train == label).sum() == np.bincount(train).max()
        ),
        "best of equal labels",
    ),
]


@pytest.mark.parametrize("name, answer", marked(ONCE_ACCEPTED))
def test_a_wrong_answer_that_once_passed(name, answer):
    verdict = exercises.check(name, answer)
    assert not verdict and verdict.mistake != "an error"


@pytest.mark.lesson8
def test_a_tie_is_not_taken_for_another_mistake():
    def largest_component(bonds, chosen):
        graph = nx.Graph()
        graph.add_nodes_from(chosen)
        graph.add_edges_from(bond for bond in bonds if set(bond) <= set(chosen))
        return _of_networkx(graph)

    assert exercises.check("largest_component", largest_component).mistake == "first listed of equal components"


@pytest.mark.parametrize("name, answer, mistake", marked(ANSWERS))
def test_answers_written_by_others(name, answer, mistake):
    verdict = exercises.check(name, answer)
    assert (verdict.right, verdict.mistake) == (mistake is None, mistake), verdict


@pytest.mark.lesson3
def test_what_is_not_a_known_mistake_still_gets_a_reason():
    "A mixture of two mistakes is recognized by neither; a property is told, with its own case."
    verdict = exercises.check(
        "donsker_varadhan", lambda f: np.trace(f) / len(f) - logsumexp(f * (1 - np.eye(len(f)))) + np.log(len(f))
    )
    assert (
        verdict.mistake == "constant critic gives zero"
        and "scores = [[3, 3, 3, 3, 3]," in verdict.message
        and "expected 0 (got" in verdict.message
    )


@pytest.mark.lesson1
@pytest.mark.parametrize(
    "answer, wanted, got",
    [
        (lambda p: p, "one number", "[0.5, 0.5]"),
        (lambda p: "two", "one number", "'two'"),
        (lambda p: (1.0, 2.0), "one number", "[1, 2]"),
        (lambda p: np.outer(p, p) if len(p) > 2 else 1.0, "one number", "[[0.49,"),
        (lambda p: np.outer(p, p) if len(p) > 3 else 1.0, "one number", "an array of shape [4, 4]"),
        (lambda p: True, "one number", "True"),
    ],
    ids=["vector", "word", "tuple", "matrix", "large matrix", "truth value"],
)
def test_a_kind_is_told_before_a_property(answer, wanted, got):
    says = exercises.check("entropy_in_bits", answer).message
    assert says.startswith(f"Expected {wanted} (got {got}") and "certain" not in says


@pytest.mark.lesson8
def test_short_lists_are_shown():
    says = exercises.check("largest_component", lambda bonds, chosen: sorted(chosen)[:1]).message
    assert "Expected [4, 5, 6] (got [0])" in says


def test_numbers_that_are_nearly_the_same_are_shown_to_the_digit_that_differs():
    says = Exercise(1, lambda x: x / 3, cases=((1.0,), (2.0,))).check(lambda x: x / 3 + 3e-5 * x**2).message
    assert "expected 0.33333 (got 0.33336)" in says
    says = (
        Exercise(1, lambda x: 1e4 * x, cases=((1.0,), (2.0,)), tolerance=1e-9)
        .check(lambda x: 1e4 * x + 3e-3 * x**2)
        .message
    )
    assert "expected 10000 (got 10000.003)" in says


@pytest.mark.lesson4
def test_another_value_each_time():
    assert (
        exercises.check(
            "noisy",
            lambda x, epsilon, log_variance: x + np.exp(log_variance / 2) * np.random.default_rng().normal(size=5),
        ).mistake
        == "another value each time"
    )


@pytest.mark.lesson3
def test_what_is_compared_is_said_where_it_is_not_the_returned_value():
    says = exercises.check("best_critic", lambda joint: joint).message
    assert "got [[0.15, -0.15]" in says and "mean is subtracted" in says
    assert "always" not in exercises.check("best_critic", np.ones_like).message


@pytest.mark.lesson4
def test_steps_that_are_not_called():
    def alternate(inner_step, outer_step, epochs, T):
        for _ in range(epochs):
            inner_step
            outer_step

    assert exercises.check("alternate", alternate).mistake == "steps not called"

    def stub(inner_step, outer_step, epochs, T): ...

    assert exercises.check("alternate", stub).mistake == UNWRITTEN
    assert "o an outer one" in exercises.check("alternate", lambda inner, outer, epochs, T: (outer(), outer())).message


@pytest.mark.lesson1
def test_a_return_that_was_forgotten():
    def entropy_in_bits(p):
        p @ p

    assert exercises.check("entropy_in_bits", entropy_in_bits).mistake == "nothing returned"


@pytest.mark.lesson7
def test_arguments_have_their_own_names():
    says = exercises.check("collapse", lambda p, threshold=0.5: False).message
    assert says.startswith("For p = [") and "(got False)" in says
    assert (
        "p = ["
        in (says := exercises.check("collapse", lambda p, threshold=0.5: "all in" if threshold < 0.8 else None).message)
        and "threshold = [" not in says
    )


@pytest.mark.lesson3
def test_two_mistakes_at_once_are_told_one_after_the_other():
    "The exponential overflows in one case; what is wrong in all others is said first."

    def naive(scores, divisor=lambda N: N):
        others = scores[~np.eye(len(scores), dtype=bool)]
        return scores.diagonal().mean() - np.log(np.exp(others).sum() / divisor(len(scores)))

    assert exercises.check("donsker_varadhan", naive).mistake == "wrong normalizer"
    assert (
        exercises.check("donsker_varadhan", lambda scores: naive(scores, lambda N: N * (N - 1))).mistake
        == "exponential overflows"
    )
    assert exercises.check("entropy_in_bits", lambda p: -(p * np.log(p)).sum()).mistake == "nats for bits"


@pytest.mark.lesson6
def test_an_answer_that_writes_into_its_input():
    def divides_in_place(M):
        M /= np.maximum(M.sum(1, keepdims=True), 1e-9)
        return M

    assert exercises.check("row_normalize", divides_in_place).mistake == "the input is changed"


def test_patterns_are_told():
    demo = Exercise(1, lambda x: x**2, cases=((1.0,), (2.0,), (3.0,)))
    assert (
        "always 3 times" in demo.check(lambda x: 3 * x * x).message
        and "always 5 above" in demo.check(lambda x: x * x + 5).message
    )
    assert (
        "always 7, whatever" in demo.check(lambda x: 7.0).message
        and "x = 2 expected 4 (got 3)" in demo.check(lambda x: 2 * x - 1 + (x == 3)).message
    )
    assert (
        "always 5 below" in demo.check(lambda x: x * x - 5).message
        and "always" not in demo.check(lambda x: x * x + 1e-4 * x).message
    )
    assert (
        demo.check(lambda x: -x * x).mistake == "the sign"
        and "1.4427 times" in demo.check(lambda x: x * x / np.log(2)).message
    )
    assert (
        Exercise(1, lambda x: x**2, cases=((1.0,), (2.0,)), nats=True).check(lambda x: x * x / np.log(2)).mistake
        == "bits and nats"
    )
    assert all(common.__doc__ for common in COMMON)


def test_names_are_looked_up_with_help():
    with pytest.raises(ValueError, match="such as donsker_varadhan.*got 'donsker'"):
        exercises.check("donsker", None)
    with pytest.raises(ValueError, match="use check"):
        exercises.ask("loss_weight")


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


@questions
def test_a_question_has_no_function_to_show(question):
    verdict = exercises.solution(question.name)
    assert not verdict and verdict.mistake == "a question" and f'ask("{question.name}")' in verdict.message


def test_one_bit_is_singular():
    assert (
        exercises.check("half_of_xor", 1).mistake == "1 bit"
        and exercises.check("half_of_xor", 0.5).mistake == "0.5 bits"
        and exercises.check("divisor", 0).mistake == "0 nats"
    )
    assert exercises.check("critical_beta", 2.78).mistake == "2.778"


SQUARE = Exercise(1, lambda x: x**2, cases=((2.0,), (3.0,)), time_limit=0.2)


def attempts():
    "Answers that are still running."
    return [thread for thread in threading.enumerate() if isinstance(thread, Attempt)]


def for_ever(x):
    while True:
        x = x + 0


def whatever_happens(x):
    while True:
        try:
            x = x + 0
        except:  # noqa: E722
            continue


@pytest.mark.parametrize(
    "answer, line, x",
    [
        (for_ever, r"[23]", 2),
        (whatever_happens, r"\d", 2),
        (lambda x: for_ever(x), "1", 2),
        (lambda x: x**2 if x < 3 else for_ever(x), "1", 3),
    ],
    ids=["loop", "bare except", "in a helper", "in the second case"],
)
def test_a_loop_without_end_is_stopped(answer, line, x):
    verdict = SQUARE.check(answer)
    assert verdict.mistake == "no end" and re.search(
        f"Stopped in line {line} of your function: no answer after 0.2 s. A loop .* called with x = {x}",
        verdict.message,
    ), verdict
    assert attempts() == []


@pytest.mark.lesson4
def test_a_loop_without_end_between_steps_is_stopped(monkeypatch):
    exercise = exercises_of(4)["alternate"]
    monkeypatch.setitem(exercise.__dict__, "time_limit", 0.2)

    def alternate(inner_step, outer_step, epochs, T):
        while epochs:
            inner_step

    assert exercises.check("alternate", alternate).mistake == "no end"
    assert exercises_of(1)["entropy_in_bits"].time_limit == 10


def test_answers_are_checked_on_any_thread():
    said = []
    thread = threading.Thread(
        target=lambda: said.extend((SQUARE.check(for_ever).mistake, SQUARE.check(lambda x: x * x).right))
    )
    thread.start()
    thread.join()
    assert said == ["no end", True]


@pytest.mark.slow
def test_what_cannot_be_stopped_is_said():
    "A call into C ends when it likes; the attempt ends right after it."
    says = SQUARE.check(lambda x: time.sleep(2)).message
    assert "continues in the background; restart the kernel" in says
    for thread in attempts():
        thread.join()
    assert attempts() == []


@pytest.mark.filterwarnings("error")
def test_memory_is_limited(monkeypatch):
    monkeypatch.setattr(attempt, "MEMORY", 2**26)

    def collects(x):
        found = []
        while True:
            found.append(bytes(1000))

    exercise = Exercise(1, lambda x: x**2, cases=((2.0,), (3.0,)), time_limit=60)
    verdict = exercise.check(collects)
    assert (
        verdict.mistake == "no end"
        and "0.062 GB of memory" in verdict.message
        and re.search("line [34]", verdict.message)
    )
    verdict = exercise.check(lambda x: np.zeros(10**15))
    assert verdict.mistake == "an error" and "Unable to allocate" in verdict.message


def test_recursion_without_end():
    def square(x):
        return square(x)

    verdict = SQUARE.check(square)
    assert verdict.mistake == "no end" and "in line 2 of your function: it calls itself without end" in verdict.message
    assert SQUARE.check(lambda x: SQUARE.check(for_ever)).mistake  # a check within a check

    def checks(x):
        return SQUARE.check(checks)

    assert SQUARE.check(checks).mistake and attempts() == []


def test_nobody_types_while_an_answer_is_checked(monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *prompt: "7")
    verdict = SQUARE.check(lambda x: float(input("x? ")))
    assert (
        verdict.mistake == "an error"
        and "EOFError in line 1" in verdict.message
        and "leave input() out" in verdict.message
    )
    assert input() == "7"


def test_an_exit_is_an_error_of_the_answer():
    assert "SystemExit in line 1" in SQUARE.check(lambda x: sys.exit("done")).message


def test_a_flood_of_output_is_cut(capsys):
    def square(x):
        for i in range(10_000):
            print("line", i)
        return x**2

    assert replace(SQUARE, time_limit=60).check(square)
    first, second, nothing = capsys.readouterr().out.split("… the rest of the output is not shown.\n")
    assert first == second and first.startswith("line 0\nline 1\n") and 2000 < len(first) < 2010 and nothing == ""
    print("as always")
    assert capsys.readouterr().out == "as always\n"


def test_an_answer_that_prints_a_little_is_heard(capsys):
    assert SQUARE.check(lambda x: print("x is", x) or x**2)
    assert capsys.readouterr().out == "x is 2.0\nx is 3.0\n"


READ = [
    ("log 128", np.log(128)),
    ("ln 128", np.log(128)),
    ("log(128)", np.log(128)),
    ("LOG 128", np.log(128)),
    ("-ln 10", -np.log(10)),
    ("−ln(10)", -np.log(10)),
    ("7/3", 7 / 3),
    ("log2(8)", 3),
    ("log2 8", 3),
    ("log₂ 8", 3),
    ("log₂8", 3),
    ("log10 1000", 3),
    ("1e-3", 0.001),
    ("1E3", 1000),
    ("50 %", 0.5),
    ("50%", 0.5),
    ("0,5", 0.5),
    (",5", 0.5),
    ("−0,5", -0.5),
    (" 2 / 3 ", 2 / 3),
    ("½", 0.5),
    ("1 − .95²⁰", 1 - 0.95**20),
    ("1 - .95**20", 1 - 0.95**20),
    ("1-.95^20", 1 - 0.95**20),
    ("10⁻³", 0.001),
    ("√2", 2**0.5),
    ("√2/2", 2**0.5 / 2),
    ("sqrt(2)/2", 2**0.5 / 2),
    ("2 log 3", 2 * np.log(3)),
    ("2pi", 2 * np.pi),
    ("π", np.pi),
    ("e**2", np.e**2),
    ("2e", 2 * np.e),
    ("exp(-1)", np.exp(-1)),
    ("(1+2)(3+4)", 21),
    ("2(3)", 6),
    ("log 2 / log 3", np.log(2) / np.log(3)),
    ("log 2 + 1", np.log(2) + 1),
    ("log 50 %", np.log(0.5)),
    ("+3", 3),
    ("--3", 3),
    ("-2**2", -4),
    ("10/13", 10 / 13),
    ("76.9 %", 0.769),
    ("4.85 nats", 4.85),
    ("1 bit", np.log(2)),
    ("7 bits", np.log(128)),
    ("log(8)/log(2)", 3),
    ("3.", 3),
]


@pytest.mark.parametrize("typed, value", READ)
def test_numbers_are_read_as_they_are_written(typed, value):
    assert read_number(typed) == pytest.approx(value, rel=1e-12)
    assert Question(1, "q", "?", value, "yes").check(typed)


@pytest.mark.parametrize("typed, value", [("1 bit", 1), ("ln 2 nats", 1), ("log2(8)", 3), ("log 8", np.log(8))])
def test_an_answer_in_bits_is_converted_where_it_says_nats(typed, value):
    assert read_number(typed, "bits") == pytest.approx(value)


@pytest.mark.parametrize(
    "typed",
    [
        "many",
        "log",
        "log2",
        "log128",
        "log 0",
        "log -1",
        "1/0",
        "(-8)**.5",
        "9**9**9**9",
        "1 000",
        "1.2.3",
        "[1]",
        "1 if 1 else 2",
        "x",
        "nan",
        "inf",
        "1e999",
        "0x10",
        "1j",
        "True",
        "'1'",
        "__import__('os').getcwd()",
        "(1).real",
        "log(1, 2)",
        "exp(x=1)",
        "().__class__",
        "lambda: 1",
        "(" * 150 + "1" + ")" * 150,
        "-" * 5000 + "1",
        "1\n2",
        "\x00",
        "%",
        "5 % 3",
        "2 * * 3",
    ],
)
def test_what_is_no_number_is_told_what_is_accepted(typed):
    verdict = exercises.check("ceiling", typed)
    assert (
        verdict.mistake == "no number"
        and FORMS in verdict.message
        and verdict.message.startswith("Expected ")
        and "(got" in verdict.message
    )


@pytest.mark.parametrize("typed", ["log 1/2", "ln 10**2", "log 128*2", "sqrt 2/(3)"])
def test_what_may_be_two_numbers_asks_for_parentheses(typed):
    verdict = exercises.check("ceiling", typed)
    assert verdict.mistake == "no number" and verdict.message.startswith("Put parentheses")


@pytest.mark.parametrize(
    "name, typed",
    [
        ("ceiling", "log 128"),
        ("ceiling", "7 bits"),
        ("divisor", "-ln 10"),
        ("divisor", "−log(11-1)"),
        ("twenty_tries", "1 − .95²⁰"),
        ("keep_every_edge", "1/1,3"),
        ("keep_every_edge", "76,9 %"),
        ("critical_beta", ".6²"),
        ("no_information", "c)"),
        ("half_of_xor", "log2(1)"),
    ],
)
def test_answers_as_they_stand_on_paper(name, typed):
    assert exercises.check(name, typed)


def test_a_formula_is_answered_with_its_value():
    assert (
        exercises.check("ceiling", "log 3").message.startswith("log 3 is 1.099. The right value is larger")
        and exercises.check("ceiling", "−1.5").message == "The right value is larger than this."
    )
    assert exercises.check("ceiling", " ").mistake == UNWRITTEN


GUESSES = [each for lesson in LESSONS for each in guesses_of(lesson)]


@pytest.mark.parametrize("each", GUESSES, ids=lambda each: each.name)
def test_a_guess_is_shown_beside_the_answer(each):
    assert guess(each.name) is each and each.text.endswith("?")
    widget = each.widget
    assert widget.children[2].value == ""
    widget.children[1].value = "a <b>lot</b>"
    said = widget.children[2].value
    assert "a &lt;b&gt;lot" in said and html.escape(each.answer) in said
    lesson = next((pathlib.Path(__file__).parents[1] / "nbs" / "lessons").glob(f"{each.lesson:02}_*.ipynb")).read_text()
    assert f'guess(\\"{each.name}\\")' in lesson


def test_an_unknown_guess_is_refused():
    with pytest.raises(ValueError, match="expected the name of a guess, such as noisy_channel"):
        guess("nothing")


@pytest.mark.parametrize(
    "name, function, said",
    [
        ("summary_table", lambda encoder, joint: encoder @ joint, "has to be transposed"),
        ("conditional_entropy", lambda joint: (joint / joint.sum(1)).sum(), "keepdims=True"),
        ("mutual_information", lambda joint: joint / np.outer(joint.sum(0), joint.sum(1)), "np.outer"),
        ("entropy_in_bits", lambda p: p * np.log2(np.where(p > 0, p, 1)), "Is a sum or a mean missing"),
        ("label_bound", lambda q, y: _nats_of(y) + np.log(q[:, y]).mean(), "one number for each graph"),
        ("label_bound", lambda q, y: _nats_of(y) + np.log(q[np.arange(len(y)), y].mean()), "mean of the logarithms"),
        ("donsker_varadhan", lambda s: np.log2(np.exp(s).mean()) / 0, "finite number. For scores"),
    ],
)
def test_shapes_and_means_that_students_mix_up(name, function, said):
    with np.errstate(all="ignore"):
        assert said in repr(check(name, function))


def _nats_of(y):
    p = np.bincount(y) / len(y)
    return -(p[p > 0] * np.log(p[p > 0])).sum()
