"""Tables of campaigns for the page on clusters: forecast times by number of devices, and times that campaigns took."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter

from ..analysis import format as show
from ..analysis.campaign_time import CampaignTimes, Cost, forecast
from ..devices.backends import label
from .columns import Column, Record, table
from .html import Table

DEVICES = (1, 2, 64, 1024)


def forecast_table(costs: Mapping[str, Sequence[tuple[str, Cost, int]]]) -> Table:
    """Return a table with a line for each device and number of devices.

    costs: device name -> (lab name, cost, number of runs) of each lab.
    """
    records: list[Record] = []
    for device, labs in costs.items():
        longest, case = max((cost.seconds[case], f"{lab} {case}") for lab, cost, _ in labs for case in cost.seconds)
        records += [
            {"device": device, **asdict(forecasted), "longest_case": case, "longest_seconds": longest}
            for forecasted in forecast([(cost, runs) for _, cost, runs in labs], DEVICES)
        ]
    columns: list[Column[Record]] = [
        Column("Device", itemgetter("device")),
        Column("How many", lambda row: str(row["devices"]), "num"),
        Column("Time", lambda row: show.duration(row["seconds"]), "num"),
        Column("Times as fast as one", lambda row: f"{row['speedup']:.3g}", "num"),
        Column("Devices at work", lambda row: f"{100 * row['busy']:.3g} %", "num"),
        Column("Longest case", lambda row: f"{row['longest_case']}, {show.duration(row['longest_seconds'])}", "wrap"),
    ]
    notes = (
        "Cases as the recorded runs took them: published and large sizes, sweeps and peers, as many runs as each lab asks for.",
        "The time of a case includes compiling, checks and the start of a process, but no waiting for jobs to begin. Each "
        "device takes the longest case that is left.",
    )
    units = {"seconds": "s", "longest_seconds": "s"}
    caption = "How long a campaign takes, by the costs of recorded runs"
    return table(caption, columns, records, notes, records=records, units=units)


def campaigns_table(campaigns: Sequence[CampaignTimes]) -> Table:
    """Return a table with a line for each campaign and number of cards: its time, the gain, and the forecast."""
    records: list[Record] = []
    for campaign in campaigns:
        for cards, seconds in sorted(campaign.seconds.items()):
            gains = sorted(one / several for one in campaign.seconds[1] for several in seconds) if cards > 1 else [1.0]
            median = statistics.median(seconds)
            records.append({
                "campaign": f"{campaign.lab}: {campaign.cases} cases, {campaign.measurements} measurements",
                "backend": label(campaign.backend), "times": sorted(seconds), "gains": gains,
                "lab": campaign.lab, "device": campaign.device_name, "cards": cards, "seconds": median, "runs": len(seconds),
                "speedup": statistics.median(campaign.seconds[1]) / median, "modelled_seconds": campaign.modelled[cards],
            })  # fmt: skip

    def time(row: Record) -> str:
        runs = f" ({', '.join(map(show.duration, row['times']))})" if row["runs"] > 1 else ""
        return show.duration(row["seconds"]) + runs

    def gain(row: Record) -> str:
        gains = row["gains"]
        return f"{row['speedup']:.3g}" + f" ({gains[0]:.3g} to {gains[-1]:.3g})" * (len(gains) > 1)

    columns: list[Column[Record]] = [
        Column("Campaign", itemgetter("campaign"), "wrap"),
        Column("Device", lambda row: f"{row['device']}, {row['backend']}", "wrap"),
        Column("Cards", lambda row: str(row["cards"]), "num"),
        Column("Time", time, "num"),
        Column("Times as fast as one", gain, "num"),
        Column("The model says", lambda row: show.duration(row["modelled_seconds"]), "num"),
    ]
    notes = (
        "One worker for each card, on one host. The time is from the start of the command to the end of the last case: the "
        "median of several runs, with each in brackets. The brackets of a gain hold the least and the greatest over any two "
        "runs. The first run of a campaign compiles its kernels, and does not count.",
        "The model takes the time of each case on one card. The next free card gets the longest case that is left.",
    )
    units = {"seconds": "s", "modelled_seconds": "s"}
    fields = ("lab", "device", "cards", "seconds", "runs", "speedup", "modelled_seconds")
    return table(
        "Campaigns on one card and on several", columns, records, notes, records=records, units=units, fields=fields
    )
