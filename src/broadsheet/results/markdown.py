"""RESULTS.md from the records."""

from collections.abc import Sequence

from broadsheet.results.record import Record, ResultTable

HEAD = """# Results

Made from `results/*.json` by `broadsheet results`; do not edit. Each record was written by the command that stands
above its table, with everything that was measured, the seeds, the data and the environment.
"""


def render_results(records: Sequence[Record]) -> str:
    """The text of RESULTS.md."""
    return "\n".join([HEAD, *(_section(record) for record in records)])


def render_table(table: ResultTable) -> str:
    """A table in Markdown: names left, values right."""
    rule = ["---", *["---:"] * (len(table.columns) - 1)]
    lines = [_escape(table.columns), rule, *map(_escape, table.rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape(cells: list[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


def _section(record: Record) -> str:
    environment = record.environment
    parts = [f"## {record.title}", f"`{record.command}`"]
    for table in record.tables:
        parts += [table.caption, render_table(table)]
    parts += record.notes
    parts += [f"![{record.title}](results/{figure})" for figure in record.figures]
    where = environment["device"] if environment["device"] != "cpu" else environment["processor"]
    parts.append(
        f"<sub>{record.name}: {record.date}, {where}, {environment['cores']} cores, {environment['threads']} threads, "
        f"torch {environment['torch']}, transformers {environment['transformers']}, "
        f"broadsheet {environment['broadsheet']}.</sub>"
    )
    return "\n\n".join(parts) + "\n"
