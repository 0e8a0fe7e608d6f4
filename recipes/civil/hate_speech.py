"""The classifier that LDA-ORL (arXiv 2505.19281) detoxifies with, as a term: `recipes.civil.hate_speech:not_hate`."""

from recipes.civil.judge import Judge

not_hate = Judge("facebook/roberta-hate-speech-dynabench-r4-target", "nothate", cap=0.7)
"""Values above the cap count alike: differences between polite words are worth nothing."""
