"""`tracoco presets`: settings with a name."""

from typing import Annotated

import typer

from tracoco.cli.app import AsJson, app, complete_preset
from tracoco.console import print_json


@app.command()
def presets(
    name: Annotated[
        str | None, typer.Argument(help="Print this preset.", autocompletion=complete_preset)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the presets, or print one and those that it is based on."""
    from tracoco.presets import list_presets, preset_chain, preset_text

    if name and not as_json:
        print("\n".join(preset_text(each) for each in preset_chain(name)), end="")
        return
    entries = list_presets([name] if name else None)
    if as_json:
        rows = [{"preset": each.name, "settings": each.settings} for each in entries]
        print_json({"rows": rows})
    else:
        for each in entries:
            print(f"{each.name:24} {each.about}")
