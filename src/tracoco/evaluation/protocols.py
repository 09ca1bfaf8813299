"""Protocols by name: conventions that belong together."""

from tracoco.errors import UserError, did_you_mean
from tracoco.evaluation.scores import Empty, Protocol, Units

PROTOCOLS = {"paper": Protocol(units="voxel", empty="zero")}
"""paper: what the tables of TraCoCo and of the works around it follow."""


def chosen_protocol(
    name: str | None = None,
    units: Units | None = None,
    empty: Empty | None = None,
    *,
    cct: bool = False,
) -> Protocol:
    """A protocol by name or by its parts; a part that contradicts the name is an error."""
    if name is None:
        return Protocol(units=units or "mm", empty=empty or "missed", cct=cct)
    if name not in PROTOCOLS:
        raise UserError(f"protocol '{name}' does not exist; {did_you_mean(name, PROTOCOLS)}")
    known = PROTOCOLS[name]
    for part, given, meant in (("units", units, known.units), ("empty", empty, known.empty)):
        if given not in {None, meant}:
            raise UserError(
                f"--protocol {name} means --{part} {meant}, but --{part} {given} is given too; "
                "leave one of them out"
            )
    return Protocol(units=known.units, empty=known.empty, cct=cct)
