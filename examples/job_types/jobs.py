"""A type of jobs of your own: go_scheduler.yaml, beside this file, names it."""

from go_scheduler.handlers.job_types import JobTypes

types = JobTypes()


@types.task("word count", queue="server")
def word_count(text: str, least: int = 1) -> int:
    """Counts the words that have at least so many letters."""
    return sum(len(word) >= least for word in text.split())
