"""Trained models as a library: texts in, translations out, the same as from the commands."""

from docnmt.apps.translator.load_translator import load
from docnmt.apps.translator.translator import Translator

__all__ = ["Translator", "load"]
