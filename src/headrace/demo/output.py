"""What the demonstration prints: headings, remarks, and claims with their outcome."""

from __future__ import annotations

import sys
import textwrap

import click

WIDTH = 79  # of a terminal with 80 columns


class DemoOutput:
    """Prints as it goes and remembers whether every claim held."""

    def __init__(self) -> None:
        self.claims = 0
        self.failures: list[str] = []
        self._chapter = 0
        fancy = _can_print("✓✗")
        self._held, self._broken = ("✓", "✗") if fancy else ("ok", "NO")

    def heading(self, title: str) -> None:
        self._chapter += 1
        click.echo("\n" + click.style(f"{self._chapter}. {title}", bold=True))

    def say(self, text: str) -> None:
        click.echo(f"   {text}")

    def remark(self, text: str) -> None:
        """A few sentences, broken into lines."""
        for line in textwrap.wrap(" ".join(text.split()), WIDTH - 3):
            self.say(line)

    def progress(self, text: str) -> None:
        """A line that the next one replaces; only on terminals."""
        if sys.stdout.isatty():
            click.echo(f"\r\x1b[K   {text}" if text else "\r\x1b[K", nl=False)

    def check(self, claim: str, held: bool, seen: object = "") -> None:
        """One claim: printed with what was seen, counted as kept or broken."""
        self.claims += 1
        if not held:
            self.failures.append(claim)
        mark = click.style(self._held, fg="green") if held else click.style(self._broken, fg="red")
        click.echo(f" {mark} {claim}", nl=not seen)
        if seen:
            fits = len(f" {self._held} {claim}: {seen}") <= WIDTH
            click.echo((": " if fits else ":\n     ") + str(seen))

    def expect(self, claim: str, seen: object, wanted: object) -> None:
        """A claim that two values are equal; the values are shown when they are not."""
        held = seen == wanted
        self.check(claim, held, "" if held else f"seen {seen!r}, expected {wanted!r}")

    def end(self, seconds: float) -> None:
        kept = self.claims - len(self.failures)
        click.echo(f"\n{kept} of {self.claims} claims held, in {seconds:.1f} s.")
        for claim in self.failures:
            click.echo(click.style(f"   did not hold: {claim}", fg="red"))


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
