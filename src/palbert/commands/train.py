"""palbert demo, train, pretrain, recipes and parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from palbert.commands.arguments import AutoResume, Force, Json, Out, Overrides, RecipeName, Resume, Trust
from palbert.terminal import is_first_process, print_memory, print_summary, print_table, say

TextColumns = Annotated[
    list[str] | None, typer.Option("--text", help="Data file: its text column; give it twice for pairs.")
]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Data file: its label column.")]
TestFile = Annotated[Path | None, typer.Option("--test", help="Data file: rows to score once, at the end.")]
Folds = Annotated[
    int | None, typer.Option("--folds", help="Train once per fold of the training rows and show the mean.", min=2)
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Load and check everything, show memory and time of the run, write nothing."),
]
QUESTIONS: list[tuple[str, str | tuple[str, str]]] = [
    ("sst", "The soup arrived cold and nobody seemed to care."),
    ("quora", ("How can I sleep better at night?", "What helps you get a good night's rest?")),
    ("sts", ("A cyclist rides through heavy rain.", "Someone is on a bike in the pouring rain.")),
]
"""What `palbert demo` asks its trained model, once per task."""


def demo(
    out: Annotated[Path, typer.Option("--out", help="The run folder.")] = Path("runs/demo"),
    force: Force = False,
    overrides: Overrides = None,
) -> None:
    """Train sentiment, paraphrase and similarity on sample data, write a report, and predict.

    Example:  palbert demo --out runs/demo
    """
    from palbert.verbs.predict import load
    from palbert.verbs.train import train

    folder = train("demo", out=out, force=force, overrides=overrides or ())
    print_summary(json.loads((folder / "report.json").read_text("utf-8")))
    predictor = load(folder)
    for task, text in QUESTIONS:
        [prediction] = predictor.predict(task, [text])
        shown = text if isinstance(text, str) else " / ".join(text)
        answer = predictor.task(task).target.line(prediction.answer, prediction.probabilities)
        say(f"{task:>6}  {shown}\n        → {answer}")
    say(f"\nReport: {folder / 'report.html'}")


def train(
    recipe: RecipeName,
    overrides: Overrides = None,
    text: TextColumns = None,
    label: LabelColumn = None,
    test: TestFile = None,
    out: Out = None,
    resume: Resume = False,
    auto_resume: AutoResume = False,
    force: Force = False,
    folds: Folds = None,
    dry_run: DryRun = False,
    trust: Trust = False,
) -> None:
    """Train a recipe and write a report.

    Example commands:

    palbert train my.toml --set training.epochs=5 --out runs/mine

    palbert train my.toml --out runs/mine --resume

    palbert train my.toml --dry-run

    palbert train reviews.csv --text review --label stars

    palbert train reviews.csv --folds 5
    """
    from palbert.recipe.from_file import columns_as_overrides, run_name
    from palbert.recipe.load import load_recipe

    settings = [*columns_as_overrides(recipe, text=text or (), label=label, test=test), *(overrides or ())]
    loaded = load_recipe(recipe, overrides=settings)  # a wrong recipe is reported before torch is imported
    if dry_run:
        from palbert.verbs.dry_run import dry_run as try_recipe

        print_memory(try_recipe(loaded).summary)
        return
    from palbert.verbs.cross_validate import cross_validate, folds_in
    from palbert.verbs.train import train as train_recipe

    out = out or Path("runs") / run_name(recipe)
    folds = folds or (folds_in(out) if resume or auto_resume else None)
    if folds:
        _print_first(
            cross_validate(loaded, folds=folds, out=out, resume="auto" if auto_resume else resume, force=force)
        )
        return
    folder = train_recipe(loaded, out=out, resume="auto" if auto_resume else resume, force=force)
    _print_report(folder.path)


def _print_report(folder: Path) -> None:
    """Print the report of a run in the first of several processes alone."""
    if is_first_process():
        print_summary(json.loads((folder / "report.json").read_text("utf-8")))
        say(f"\nReport: {folder / 'report.html'}")


def _print_first(result: object) -> None:
    """Print a result in the first of several processes alone."""
    if is_first_process():
        say(repr(result))


def pretrain(
    recipe: RecipeName,
    text: Annotated[
        list[Path] | None,
        typer.Option("--text", help="An additional .txt file to learn from, one text per line; repeatable."),
    ] = None,
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder of the new encoder. [runs/RECIPE-pretrained]")
    ] = None,
    resume: Resume = False,
    auto_resume: AutoResume = False,
    force: Force = False,
) -> None:
    """Train the encoder further on masked words of the tasks' training texts, before any task.

    Example commands:

    palbert pretrain my.toml --text reviews.txt --out encoders/mine

    palbert train my.toml --set encoder=encoders/mine
    """
    from palbert.recipe.load import load_recipe, with_texts

    loaded = with_texts(load_recipe(recipe, overrides=overrides or ()), text or ())
    from palbert.verbs.pretrain import pretrain as pretrain_recipe

    out = out or Path("runs") / f"{Path(recipe).stem}-pretrained"
    folder = pretrain_recipe(loaded, out=out, resume="auto" if auto_resume else resume, force=force)
    if not is_first_process():
        return
    report = json.loads((folder / "report.json").read_text("utf-8"))
    rows = [[name, f"{report['before'][name]:.4f}", f"{report[name]:.4f}"] for name in ("loss", "perplexity")]
    print_table(["held-out texts", "before", "after"], rows)
    say(f"\n{report['rows']:,} texts, {report['tokens']:,} tokens, {report['seconds']:.0f} s\nEncoder: {folder}")


def recipes() -> None:
    """List the built-in recipes and those in ./recipes.

    Example:  palbert recipes
    """
    from palbert.recipe.load import list_recipes

    print_table(["recipe", "what it does"], [[name, description] for name, description in list_recipes()])


def parts(
    kind: Annotated[str | None, typer.Argument(help="heads, samplers, objectives, …; all kinds unless given.")] = None,
    as_json: Json = False,
) -> None:
    """List what a recipe can name: heads, samplers, objectives and so on, with their options.

    An option without a default is required, or comes from the task. Installed packages may add parts.

    Example:  palbert parts samplers
    """
    from palbert.verbs.parts import parts as find_parts

    found = find_parts(kind)
    if as_json:
        values = {name: [each.as_json() for each in listed] for name, listed in found.items()}
        say(json.dumps(values, ensure_ascii=False))
        return
    for number, (name, listed) in enumerate(found.items()):
        say("\n" * (number > 0) + name)
        rows = [[f"  {each.name}", each.written_options, each.extra, each.summary] for each in listed]
        print_table(["  name", "options", "extra", "what it is"], rows)
