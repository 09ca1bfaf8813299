"""`tracoco presets`: settings with a name."""

from typing import Annotated

import typer

from tracoco.cli.app import AsJson, app
from tracoco.console import print_json


@app.command()
def presets(
    name: Annotated[str | None, typer.Argument(help="Print this preset.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or print one and those that it is based on."""
    from tracoco.presets import preset_chain, preset_names, preset_text, read_preset

    names = [name] if name else preset_names()
    if as_json:
        print_json({"rows": [{"preset": each, "settings": read_preset(each)} for each in names]})
    elif name:
        print("\n".join(preset_text(each) for each in preset_chain(name)), end="")
    else:
        for each in names:
            print(f"{each:24} {preset_text(each).splitlines()[0].removeprefix('# ')}")
