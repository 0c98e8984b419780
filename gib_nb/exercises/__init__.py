"""Exercises that say what is wrong with an answer: `check`, `ask`, `guess`, and `solution`."""

from .base import ask, check, exercises_of, guess, solution

__all__ = ["ask", "check", "exercises_of", "guess", "solution"]
