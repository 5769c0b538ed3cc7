"""Times of a lab on each device as scripts, by which a page compares its device with another one in place.

_build/times/LAB has a script for each device, which the site has in its folder of the lab's scripts. book/_assets/against.js
computes ratios from two of them, by the rule of `stats.unpaired_ratio`.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.readings import Reading, cases_of, newest
from ..escaping import script_json
from ..measure.stats import EQUAL, FEWEST, LEAST
from ..paths import write_whole
from .device_choices import HERE, SCRIPTS

if TYPE_CHECKING:
    from ..analysis.lab_data import LabData

FOLDER = Path("_build", "times")
SITE_FOLDER = "times"
"""Folder of these scripts beside those of a lab's pages."""
BANDS = f'data-least="{LEAST}" data-equal="{EQUAL}"'
"""Attributes that tell the script by which factors two times differ, and within which they are equal."""


def times(data: "LabData") -> dict[str, dict[str, list[float]]]:
    """Return the times of a device by case and variant, in seconds per unit, without programs of its host.

    A time is the median and, unless samples are too few for an interval, the middle and the ends of `Reading.side`.
    """
    rows = data.rows_with_peers
    return {
        case: {
            name: _numbers(reading)
            for name, reading in newest(rows, case).items()
            if reading.ok and reading.row["device"] == data.device.slug
        }
        for case in cases_of(rows)
    }


def _numbers(reading: Reading) -> list[float]:
    side = reading.side
    interval = [side.log_middle, side.low, side.high] if side.n >= FEWEST else []
    return [float(f"{number:.7g}") for number in (reading.median, *interval)]


def write(root: Path, data: "LabData", name: str) -> None:
    """Write the script of a lab's times on a device. name: of its file, `DeviceChoice.stem`."""
    text = f"roofbookTimes({script_json(name, times(data))});\n"
    write_whole(root / FOLDER / data.lab.name / f"{name}.js", text)


def keep_only(root: Path, lab: str, names: Iterable[str]) -> None:
    """Remove the times of a lab on devices other than these."""
    current = {*names, HERE.name}
    for path in (root / FOLDER / lab).glob("*.js"):
        if path.stem not in current:
            path.unlink()


def copy(root: Path, site: Path) -> None:
    """Copy the scripts into the site, and remove those of other devices."""
    targets = {
        site / SCRIPTS / path.parent.name / SITE_FOLDER / path.name: path for path in (root / FOLDER).glob("*/*.js")
    }
    for obsolete in set(site.glob(f"{SCRIPTS}/*/{SITE_FOLDER}/*.js")) - targets.keys():
        obsolete.unlink()
    for target, path in targets.items():
        if not target.exists() or target.read_bytes() != path.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
