//! The picture of one or several runs, as SVG.

use super::report::{Figures, Point, Report};
use crate::arguments::What;
use crate::units;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One curve: its name, and its points.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    /// Drawn thin: of the same run as the one before.
    minor: bool,
}

/// Colors that are told apart by who sees few of them.
const COLORS: [RGBColor; 6] = [
    RGBColor(0xd9, 0x5f, 0x02),
    RGBColor(0x3b, 0x55, 0x80),
    RGBColor(0x1b, 0x9e, 0x77),
    RGBColor(0x75, 0x70, 0xb3),
    RGBColor(0xe7, 0x29, 0x8a),
    RGBColor(0x66, 0x66, 0x66),
];

/// Draws the legend of a chart, which is the last thing to be drawn.
macro_rules! legend {
    ($chart:ident) => {{
        let mut labels = $chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.4))
            .label_font(("sans-serif", 14));
        labels.draw().map_err(|error| error.to_string())?;
        Ok(())
    }};
}

/// The picture.
pub fn svg(reports: &[Report]) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 600)).into_drawing_area();
        draw(reports, &area).map_err(|error| format!("cannot be drawn: {error}"))?;
    }
    Ok(svg)
}

fn draw(reports: &[Report], area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    area.fill(&WHITE).map_err(|error| error.to_string())?;
    let what = reports.first().map_or(What::Lat, |report| report.what);
    let one_size = reports.iter().all(|report| report.points.len() <= 1);
    match what {
        What::Lat if one_size => percentiles(reports, area),
        What::Lat => over_sizes(
            area,
            "Latency over message size",
            "half a round trip [µs]",
            &latencies(reports),
        ),
        What::Bw => over_sizes(
            area,
            "Bandwidth over message size",
            "bandwidth [MiB/s]",
            &averages(reports, Point::mebibytes),
        ),
        What::Rate => over_sizes(
            area,
            "Message rate over message size",
            "messages [million/s]",
            &averages(reports, |_, rate| rate / 1e6),
        ),
    }
}

/// Medians, and 99th percentiles.
fn latencies(reports: &[Report]) -> Vec<Curve> {
    let curve = |report: &Report, which: f64, minor| {
        let time = |point: &Point| match &point.figures {
            Figures::Latency { percentiles, .. } => {
                let found = percentiles.iter().find(|(percentile, _)| *percentile == which)?;
                Some((f64::from(point.size), found.1))
            }
            Figures::Bandwidth { .. } => None,
        };
        let name = if minor { format!("{which}th percentile") } else { report.label() };
        Curve { name, points: report.points.iter().filter_map(time).collect(), minor }
    };
    reports
        .iter()
        .flat_map(|report| [curve(report, 50.0, false), curve(report, 99.0, true)])
        .collect()
}

fn averages(reports: &[Report], unit: impl Fn(&Point, f64) -> f64) -> Vec<Curve> {
    let value = |point: &Point| match point.figures {
        Figures::Bandwidth { average, .. } => Some((f64::from(point.size), unit(point, average))),
        Figures::Latency { .. } => None,
    };
    let curve = |report: &Report| Curve {
        name: report.label(),
        points: report.points.iter().filter_map(value).collect(),
        minor: false,
    };
    reports.iter().map(curve).collect()
}

/// The least and the most of some numbers above 0, a little apart.
fn bounds(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) =
        numbers.fold((f64::MAX, 0f64), |(least, most), at| (least.min(at), most.max(at)));
    if most <= 0.0 { (0.5, 2.0) } else { (least.max(1e-6) * 0.7, most * 1.4) }
}

/// Curves over the size of messages; both axes are logarithmic.
fn over_sizes(
    area: &Area<'_>,
    title: &str,
    unit: &str,
    curves: &[Curve],
) -> Result<(), Box<dyn Error>> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let (least_size, most_size) = bounds(all().map(|(size, _)| *size));
    let (least, most) = bounds(all().map(|(_, value)| *value));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(
            (least_size..most_size).log_scale().base(4.0),
            (least..most).log_scale(),
        )
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .x_desc("message size")
        .y_desc(unit)
        .x_label_formatter(&|size| units::bytes(size.round() as u64))
        .y_label_formatter(&number)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 15))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(|error| error.to_string())?;
    let mut color = 0;
    for (at, curve) in curves.iter().enumerate() {
        if at > 0 && !curve.minor {
            color += 1;
        }
        let color = COLORS[color % COLORS.len()];
        let width = if curve.minor { 1 } else { 2 };
        let style = color.stroke_width(width);
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), style).point_size(3))
            .map_err(|error| error.to_string())?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    legend!(chart)
}

/// Latency over the part of messages that take no longer: the further right, the rarer.
fn percentiles(reports: &[Report], area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    // 90 % is 1, 99 % is 2, and so on.
    let nines = |percentile: f64| -(1.0 - percentile / 100.0).log10();
    let curve = |report: &Report| {
        let Some(Figures::Latency { percentiles, .. }) =
            report.points.first().map(|point| &point.figures)
        else {
            return Vec::new();
        };
        let below = percentiles.iter().filter(|(percentile, _)| *percentile < 100.0);
        below.map(|(percentile, time)| (nines(*percentile), *time)).collect()
    };
    let curves: Vec<Vec<(f64, f64)>> = reports.iter().map(curve).collect();
    let (least, most) = bounds(curves.iter().flatten().map(|(_, time)| *time));
    let size = reports.iter().flat_map(|report| &report.points).map(|point| point.size).next();
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("Latency of {} messages", units::bytes(size.unwrap_or(0).into())),
            ("sans-serif", 22),
        )
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..4.1, (least..most).log_scale())
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .x_desc("part of the messages that take no longer")
        .y_desc("half a round trip [µs]")
        .x_labels(5)
        .x_label_formatter(&|nines: &f64| match nines.round() as i32 {
            0 => "0 %".into(),
            1 => "90 %".into(),
            nines => format!("99.{} %", "9".repeat(nines.max(2) as usize - 2)).replace(". ", " "),
        })
        .y_label_formatter(&number)
        .label_style(("sans-serif", 13))
        .axis_desc_style(("sans-serif", 15))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(|error| error.to_string())?;
    for (at, (curve, report)) in curves.into_iter().zip(reports).enumerate() {
        let style = COLORS[at % COLORS.len()].stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve, style).point_size(3))
            .map_err(|error| error.to_string())?
            .label(report.label())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    legend!(chart)
}

/// A number with as many digits as it needs.
fn number(number: &f64) -> String {
    match *number {
        it if it >= 100.0 => format!("{it:.0}"),
        it if it >= 1.0 => format!("{it:.1}"),
        it => format!("{it:.3}"),
    }
}
