"""Exercises that say what is wrong with an answer: `check`, `ask`, `guess`, `solution`, and `progress`; `exercise` and `question` make new ones."""

from .base import ask, check, exercises_of, guess, solution
from .own import exercise, question
from .tracking import progress

__all__ = ["ask", "check", "exercise", "exercises_of", "guess", "progress", "question", "solution"]
