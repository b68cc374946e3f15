"""Draw the pictures of README and docs from real allocations and runs: ``make pictures``.

With the directory of a reproduction (``python docs/pictures.py DIR``) also two of its figures.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair
import polars
import vl_convert

import drfh
from drfh.report.charts.allocation import allocation_chart, usage_table
from drfh.report.charts.reproduction import utilisation_plots
from drfh.report.charts.reproduction_users import ratios_plot
from drfh.report.figures import Plot, file_chart
from drfh.report.html import figure_bytes

IMAGES = Path(__file__).parent / "images"

PANELS = (("per-server-drf", "DRF on each server by itself"), ("drfh", "DRFH"))
RUNS = (("fifo", "First come, first served"), ("best-fit-drfh", "Best-Fit DRFH"))
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
FREE = "free"

# Ink, soft ink, paper of the .png files (the .svg files are transparent), free capacity, and the
# users' colours, which stay apart for most kinds of colour vision.
LOOKS: dict[str, dict[str, Any]] = {
    "light": {
        "ink": "#1c2330",
        "soft": "#5a6475",
        "paper": "#ffffff",
        "free": "#e4e8ee",
        "users": ["#4c78a8", "#f58518"],
        "third": "#3f9a6c",
    },
    "dark": {
        "ink": "#e6e9ef",
        "soft": "#9aa4b5",
        "paper": "#0d1117",
        "free": "#38424f",
        "users": ["#6f9fd0", "#f59a3e"],
        "third": "#67bf91",
    },
}


def percent(part: float) -> str:
    """Return a part as whole percent.

    Parameters
    ----------
    part
        From 0 to 1.
    """
    return f"{100 * part:.0f} %"


def bars(allocation: drfh.Allocation) -> polars.DataFrame:
    """Return the pieces of every bar, free capacity as the last one.

    Parameters
    ----------
    allocation
        What to show.

    Returns
    -------
    polars.DataFrame
        A row for each piece: server, resource with its capacity, user, order, where it starts and
        ends, and its size as text.
    """
    cluster = allocation.problem.cluster
    capacity = {
        (server.name, resource): f"{resource}  {amount:g}"
        for server in cluster.servers
        for resource, amount in server.resources.items()
    }
    frame = usage_table(allocation)
    keys = ["group", "resource"]
    free = frame.group_by(keys, maintain_order=True).agg(
        polars.lit(FREE).alias("user"),
        polars.col("group_place").first(),
        (polars.col("user_place").max() + 1).alias("user_place"),
        (1 - polars.col("used").sum()).clip(0, 1).alias("used"),
    )
    frame = polars.concat([frame, free.select(frame.columns)]).sort("group_place", "user_place")
    end = polars.col("used").cum_sum().over(keys)
    labels = [capacity[row["group"], row["resource"]] for row in frame.iter_rows(named=True)]
    return frame.with_columns(
        polars.Series("label", labels),
        polars.Series("text", [percent(part) for part in frame["used"]]),
        end.alias("end"),
        (end - polars.col("used")).alias("start"),
        (end - polars.col("used") / 2).alias("middle"),
    )


def panel(allocation: drfh.Allocation, heading: str, look: dict[str, Any]) -> altair.VConcatChart:
    """Return one mechanism: two servers, two resources each.

    Parameters
    ----------
    allocation
        What to show.
    heading
        What to call it; the numbers of tasks are added.
    look
        Colours.
    """
    tasks = list(allocation.tasks.values())
    counts = " + ".join(f"{number:.4g}" for number in tasks)
    used = ", ".join(
        f"{percent(part)} of the {name}" for name, part in allocation.utilisation.items()
    )
    frame = bars(allocation)
    cluster = allocation.problem.cluster
    charts = [_server(frame, server, look) for server in cluster.servers]
    return altair.vconcat(*charts, spacing=14).properties(
        title=altair.TitleParams(
            f"{heading}: {counts} tasks",
            subtitle=f"uses {used}",
            anchor="start",
            offset=14,
        )
    )


def _server(frame: polars.DataFrame, server: drfh.Server, look: dict[str, Any]) -> Any:
    users = [*frame.filter(polars.col("user") != FREE)["user"].unique(maintain_order=True), FREE]
    part = frame.filter((polars.col("group") == server.name) & (polars.col("used") > 1e-9))
    order = [f"{resource}  {amount:g}" for resource, amount in server.resources.items()]
    y = altair.Y(
        "label:N",
        sort=order,
        title=None,
        axis=altair.Axis(domain=False, ticks=False, labelPadding=8, minExtent=72, maxExtent=72),
    )
    base = altair.Chart(part)
    pieces = base.mark_bar(height=24, stroke=look["paper"], strokeWidth=1).encode(
        x=altair.X("start:Q", scale=altair.Scale(domain=[0, 1]), axis=None),
        x2="end:Q",
        y=y,
        color=altair.Color(
            "user:N",
            scale=altair.Scale(domain=users, range=[*look["users"], look["free"]]),
            legend=altair.Legend(
                title=None,
                orient="bottom",
                direction="horizontal",
                symbolType="square",
                symbolSize=180,
                offset=18,
            ),
        ),
    )
    wide = altair.datum.used > 0.08
    numbers = (
        base.transform_filter(wide)
        .mark_text(fontSize=12, baseline="middle")
        .encode(
            x="middle:Q",
            y=y,
            text="text:N",
            color=altair.condition(
                altair.datum.user == FREE, altair.value(look["soft"]), altair.value("#10151d")
            ),
        )
    )
    return (pieces + numbers).properties(
        width=330,
        height=altair.Step(30),
        title=altair.TitleParams(
            server.name or "",
            anchor="start",
            frame="group",
            fontSize=13,
            fontWeight="normal",
            color=look["soft"],
            offset=4,
        ),
    )


def paper_example(look: dict[str, Any]) -> dict[str, Any]:
    """Return the picture of the paper's example as a Vega-Lite specification.

    Parameters
    ----------
    look
        Colours.
    """
    scenario = drfh.load_scenario("paper-two-servers")
    panels = [
        panel(drfh.allocate(scenario.cluster, scenario.users, mechanism=mechanism), heading, look)
        for mechanism, heading in PANELS
    ]
    return _dressed(altair.hconcat(*panels, spacing=56), look)


def shares_over_time(look: dict[str, Any]) -> dict[str, Any]:
    """Return the picture of the paper's dynamic experiment under two policies.

    Parameters
    ----------
    look
        Colours.
    """
    scenario = drfh.load_scenario("paper-dynamic")
    charts = []
    for policy, heading in RUNS:
        result = drfh.simulate(scenario.cluster, scenario.workload, policy, interval=5)
        waits = result.summary()["mean_waiting"]
        # Without the time before the first task and after the last, each user in one piece.
        share = polars.col("share")
        beside = share.shift(1).over("user").fill_null(0) + share.shift(-1).over("user").fill_null(
            0
        )
        frame = result.shares().filter(share + beside > 0)
        charts.append(
            altair.Chart(frame)
            .mark_line(interpolate="step-after", strokeJoin="round")
            .encode(
                x=altair.X(
                    "time:Q",
                    title="seconds",
                    scale=altair.Scale(domain=[0, 2000]),
                    axis=altair.Axis(values=[0, 200, 500, 1080, 1500, 2000], grid=False),
                ),
                y=altair.Y(
                    "share:Q",
                    title=None,
                    scale=altair.Scale(domain=[0, 1]),
                    axis=altair.Axis(format=".0%", tickCount=5, domain=False, ticks=False),
                ),
                color=altair.Color(
                    "user:N",
                    scale=altair.Scale(range=[*look["users"], look["third"]]),
                    legend=altair.Legend(
                        title=None,
                        orient="bottom",
                        symbolType="stroke",
                        symbolStrokeWidth=5,
                        symbolSize=300,
                        offset=10,
                    ),
                ),
                # Equal shares lie on top of each other: the ones below look out on both sides.
                strokeWidth=altair.StrokeWidth(
                    "user:N", scale=altair.Scale(type="ordinal", range=[7, 4, 2]), legend=None
                ),
            )
            .properties(
                width=330,
                height=200,
                title=altair.TitleParams(
                    heading,
                    subtitle=f"dominant shares; a task waits {waits / 60:.0f} minutes on average",
                    anchor="start",
                    frame="group",
                    offset=14,
                ),
            )
        )
    return _dressed(altair.hconcat(*charts, spacing=56), look)


def _dressed(chart: Any, look: dict[str, Any]) -> dict[str, Any]:
    """Return the specification of a chart in the given colours."""
    chart = chart.configure(
        font=FONT,
        padding=16,
        view=altair.ViewConfig(stroke=None),
        title=altair.TitleConfig(
            fontSize=16,
            fontWeight=600,
            color=look["ink"],
            subtitleColor=look["soft"],
            subtitleFontSize=12,
            subtitlePadding=4,
        ),
        axis=altair.AxisConfig(
            labelColor=look["ink"],
            labelFontSize=12,
            titleColor=look["soft"],
            titleFontWeight="normal",
            domainColor=look["soft"],
            tickColor=look["soft"],
            gridColor=look["free"],
        ),
        legend=altair.LegendConfig(labelColor=look["ink"], labelFontSize=13),
    )
    spec: dict[str, Any] = chart.to_dict()
    return spec


def reproduced(folder: Path, name: str) -> Plot:
    """Return a figure of a reproduction: utilisation over time, or what users get done.

    Parameters
    ----------
    folder
        Its directory, with ``tables/``.
    name
        ``reproduced-utilisation`` or ``reproduced-ratios``.
    """
    table = name.removeprefix("reproduced-")
    tables = {table: polars.read_parquet(folder / "tables" / f"{table}.parquet")}
    return utilisation_plots(tables)[0] if table == "utilisation" else ratios_plot(tables)


def draw_reproduced(folder: Path) -> None:
    """Write two figures of a reproduction, as small as they can be: no words for each point.

    Parameters
    ----------
    folder
        Directory of the reproduction.
    """
    for name in ("reproduced-utilisation", "reproduced-ratios"):
        chart = file_chart(reproduced(folder, name))
        for look_name, look in LOOKS.items():
            spec = _dressed(chart, look)
            spec["config"] |= {"background": "transparent", "aria": False}
            spec["config"]["rule"] = {"color": look["soft"]}
            for key, rows in spec["datasets"].items():
                spec["datasets"][key] = _seen(rows)
            drawn = str(vl_convert.vegalite_to_svg(json.dumps(spec)))
            (IMAGES / f"{name}-{look_name}.svg").write_text(drawn, encoding="utf-8")


def _seen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without those that lie exactly on others: most users get all or nothing done."""
    places = {
        json.dumps({name: value for name, value in row.items() if name not in ("user", "tasks")})
        if "area" in row
        else position: row
        for position, row in enumerate(rows)
    }
    return list(places.values())


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    for folder in sys.argv[1:]:
        draw_reproduced(Path(folder))
    for picture, draw in (("paper-example", paper_example), ("over-time", shares_over_time)):
        for name, look in LOOKS.items():
            spec = draw(look)
            target = IMAGES / f"{picture}-{name}"
            spec["config"]["background"] = "transparent"
            target.with_suffix(".svg").write_text(
                str(vl_convert.vegalite_to_svg(json.dumps(spec))), encoding="utf-8"
            )
            spec["config"]["background"] = look["paper"]
            target.with_suffix(".png").write_bytes(
                bytes(vl_convert.vegalite_to_png(json.dumps(spec), scale=2.0))
            )
    scenario = drfh.load_scenario("gpu-cluster")
    chart = allocation_chart(drfh.allocate(scenario.cluster, scenario.users), scenario.title)
    (IMAGES / "gpu-cluster.png").write_bytes(figure_bytes(chart, ".png"))


if __name__ == "__main__":
    main()
