"""Exercises that say what is wrong with an answer: `check`, `ask` and `solution`."""

from .base import ask, check, exercises_of, solution

__all__ = ["ask", "check", "exercises_of", "solution"]
