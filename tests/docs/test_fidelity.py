"""docs/fidelity.md and the probes that it names: each side knows the other's."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.core.acceptance.probes import PROBES
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "fidelity.md"


@dataclass(frozen=True)
class Row:
    assumption: str
    probes: frozenset[str]


def rows() -> list[Row]:
    """The lines of the tables whose last column is an answer by the acceptance."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            continue
        *cells, answer = (cell.strip() for cell in line.strip("|").split(" | "))
        if answer.startswith("acceptance:"):
            found.append(Row(" | ".join(cells), frozenset(re.findall(r"`([a-z-]+)`", answer.split(";")[0]))))
    return found


def test_every_probe_is_named_by_a_line_and_every_named_probe_exists() -> None:
    named = {probe for row in rows() for probe in row.probes}
    # `acceptance` is the command itself, where a line says what it cannot do.
    assert named - {"acceptance"} == {probe.id for probe in PROBES}


def test_every_answer_by_the_acceptance_names_a_probe() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(rows()) == len(re.findall(r"\| acceptance\b", text))
    assert all(row.probes for row in rows())


def test_a_probe_stands_in_the_line_of_the_assumption_that_it_says_it_answers() -> None:
    for probe in PROBES:
        (row,) = [row for row in rows() if probe.id in row.probes]
        missing = [word for word in probe.assumption.split() if word not in row.assumption]
        assert missing == [], f"{probe.id}: {row.assumption}"


def test_a_job_of_more_than_twelve_hours_is_no_probes_business_and_is_said_to_be_none() -> None:
    (line,) = [one for one in PAGE.read_text().splitlines() if one.startswith("| the container's credentials")]
    assert "`acceptance` has a cost cap" in line
