"""Check commit subjects: up to 72 characters, capitalised, imperative mood, no full stop.

Without arguments it checks the commits after SINCE; a copy without git, or a shallow clone that does not reach back to
SINCE, has none. With --message FILE it checks a message before it is committed, as a commit-msg hook.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

SINCE = "5fe737c942402a09d4a28c51a799c15cc09d1f05"
"""The last commit that is not checked: earlier ones break the rule, and published history is not rewritten."""
LONGEST = 72
GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
"""How subjects begin that git writes itself."""
NOT_VERBS = re.compile(
    r"a|all|an|another|any|both|each|every|few|he|it|its|more|most|no|not|nothing|one|our|several|she|some"
    r"|that|the|there|these|they|this|those|two|three|we|what|when|where|which|who|with|without|you"
)
"""First words of statements."""
OTHER_FORM = re.compile(r"\w+(?<!s)(?<!cu)s|\w+(?<!e)ed|\w{3,}ing")
"""Adds, added, adding. "Pass", "Focus", "Feed" and "Bring" are none of these."""
IMPERATIVE = frozenset({"bias", "canvas", "embed", "shed", "string"})
"""Verbs that look like another form."""


def problems(subject: str) -> list[str]:
    """Return what is wrong with a subject."""
    if subject.startswith(GENERATED):
        return []
    found = []
    first = re.split(r"[\s:,(]", subject, maxsplit=1)[0]
    if len(subject) > LONGEST:
        found.append(f"expected at most {LONGEST} characters, found {len(subject)}")
    if not first[:1].isupper():
        found.append("expected a capital letter at the beginning")
    word = first.lower()
    if NOT_VERBS.fullmatch(word) or (OTHER_FORM.fullmatch(word) and word not in IMPERATIVE):
        found.append(f"expected the imperative, such as 'Add' or 'Fix', found '{first}'")
    if subject.endswith("."):
        found.append("expected no full stop at the end")
    return found


def new_subjects(folder: Path) -> list[str]:
    """Return the subjects of the commits after SINCE; none where git does not know it."""
    command = ["git", "-C", str(folder), "log", "--no-merges", "--format=%s", f"{SINCE}..HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return []


def main() -> int:
    """Check, print what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--message", type=Path, help="a file with a commit message, in place of the history")
    options = parser.parse_args()
    subjects = (
        [options.message.read_text("utf-8").partition("\n")[0]]
        if options.message
        else new_subjects(Path(__file__).parent)
    )
    wrong = [(subject, problem) for subject in subjects for problem in problems(subject)]
    for subject, problem in wrong:
        print(f"commit subject {subject!r}: {problem}.", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
