"""Tables of campaigns for the page on clusters: forecast times by number of devices, and times that campaigns took."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ..analysis import format as show
from ..analysis.campaign_time import CampaignTimes, Cost, forecast
from ..devices.backends import label
from .html import Cell, Row, Table

DEVICES = (1, 2, 64, 1024)


def forecast_table(costs: Mapping[str, Sequence[tuple[str, Cost, int]]]) -> Table:
    """Return a table with a line for each device and number of devices.

    costs: device name -> (lab name, cost, number of runs) of each lab.
    """
    import pandas as pd

    heads = [Cell("Device"), Cell("How many", "num"), Cell("Time", "num"), Cell("Times as fast as one", "num")]
    heads += [Cell("Devices at work", "num"), Cell("Longest case", "wrap")]
    lines, records = list[Row](), list[dict[str, object]]()
    for device, labs in costs.items():
        longest, case = max((cost.seconds[case], f"{lab} {case}") for lab, cost, _ in labs for case in cost.seconds)
        for forecasted in forecast([(cost, runs) for _, cost, runs in labs], DEVICES):
            cells = [Cell(device), Cell(str(forecasted.devices), "num"), Cell(show.duration(forecasted.seconds), "num")]
            cells += [Cell(f"{forecasted.speedup:.3g}", "num"), Cell(f"{100 * forecasted.busy:.3g} %", "num")]
            lines.append(Row([*cells, Cell(f"{case}, {show.duration(longest)}", "wrap")]))
            records.append({"device": device, **asdict(forecasted), "longest_case": case, "longest_seconds": longest})
    notes = (
        "Cases as the recorded runs took them: published and large sizes, sweeps and peers, as many runs as each lab asks for.",
        "Each case has its compiling, its checks and the start of a process in it. Each device takes the longest case that "
        "is left. Waiting for jobs to begin is not in it.",
    )
    units = {"seconds": "s", "longest_seconds": "s"}
    return Table(
        "How long a campaign takes, by the costs of recorded runs",
        heads,
        lines,
        pd.DataFrame(records),
        notes,
        "",
        units,
    )


def campaigns_table(campaigns: Sequence[CampaignTimes]) -> Table:
    """Return a table with a line for each campaign and number of cards: its time, the gain, and the forecast."""
    import pandas as pd

    heads = [
        Cell("Campaign"),
        Cell("Device"),
        Cell("Cards", "num"),
        Cell("Time", "num"),
        Cell("Times as fast as one", "num"),
    ]
    heads.append(Cell("The model says", "num"))
    lines, records = list[Row](), list[dict[str, object]]()
    for campaign in campaigns:
        alone = statistics.median(campaign.seconds[1])
        for cards, seconds in sorted(campaign.seconds.items()):
            median, modelled = statistics.median(seconds), campaign.modelled[cards]
            spread = f" ({', '.join(map(show.duration, sorted(seconds)))})" * (len(seconds) > 1)
            gains = sorted(one / several for one in campaign.seconds[1] for several in seconds) if cards > 1 else [1.0]
            between = f" ({gains[0]:.3g} to {gains[-1]:.3g})" * (len(gains) > 1)
            cases = f"{campaign.lab}: {campaign.cases} cases, {campaign.measurements} measurements"
            device = f"{campaign.device_name}, {label(campaign.backend)}"
            cells = [Cell(cases, "wrap"), Cell(device, "wrap"), Cell(str(cards), "num")]
            cells += [Cell(show.duration(median) + spread, "num"), Cell(f"{alone / median:.3g}{between}", "num")]
            lines.append(Row([*cells, Cell(show.duration(modelled), "num")]))
            records.append({
                "lab": campaign.lab, "device": campaign.device_name, "cards": cards, "seconds": median, "runs": len(seconds),
                "speedup": alone / median, "modelled_seconds": modelled,
            })  # fmt: skip
    notes = (
        "One worker for each card, on one host, from the start of the command to the end of the last case. Of several runs it "
        "is the median, with each in brackets. Beside the gain stand the least and the "
        "greatest over any two of them. The first run of a campaign compiles its kernels, and does not count.",
        "The model takes what each case took on one card, and gives the longest case that is left to the card that is free.",
    )
    units = {"seconds": "s", "modelled_seconds": "s"}
    return Table("Campaigns on one card and on several", heads, lines, pd.DataFrame(records), notes, "", units)
