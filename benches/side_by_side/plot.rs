//! The plot of the instructions.

use crate::report::{Results, Unit, Way};
use crate::subject::{Column, Row};
use plotters::prelude::*;

/// The bars of each row.
const BARS: [(Way, &str, RGBColor); 4] = [
    ((Column::Ours, false), "doorbell", RGBColor(0xd9, 0x5f, 0x02)),
    (
        (Column::OursCarried, false),
        "doorbell, entry carried (BlueFlame)",
        RGBColor(0xf5, 0xb0, 0x6b),
    ),
    ((Column::Verbs, false), "libmlx5: ibv_post_*, ibv_poll_cq", RGBColor(0x3b, 0x55, 0x80)),
    (
        (Column::Extended, true),
        "libmlx5: ibv_wr_*, ibv_start_poll, single-threaded",
        RGBColor(0x9d, 0xb4, 0xd6),
    ),
];

/// A picture of what everything takes: a row for each operation, a bar for each way.
pub fn instructions(results: &Results) -> Result<String, String> {
    let mut svg = String::new();
    draw(results, &mut svg).map_err(|error| format!("the plot: {error}"))?;
    Ok(svg)
}

fn draw(results: &Results, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let figure = |row, way| results.figure(Unit::Instructions, row, way).map(|it| it.median);
    let most = Row::ALL
        .iter()
        .flat_map(|&row| BARS.iter().filter_map(move |&(way, ..)| figure(row, way)))
        .fold(0.0, f64::max);
    let rows = Row::ALL.len();
    let root = SVGBackend::with_string(svg, (960, 60 + 44 * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Instructions per operation, doorbell and libmlx5 on the same virtual ConnectX",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(270)
        .build_cartesian_2d(0.0..most * 1.08, 0.0..rows as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("instructions (callgrind)")
        .x_labels(12)
        .x_label_formatter(&|count| format!("{count:.0}"))
        .label_style(("sans-serif", 13))
        .draw()?;
    // From the top: rows downwards, and a row's bars, too.
    for (at, row) in Row::ALL.into_iter().enumerate() {
        let top = (rows - at) as f64 - 0.08;
        let present: Vec<_> =
            BARS.iter().filter_map(|bar| Some((bar, figure(row, bar.0)?))).collect();
        let height = 0.84 / present.len().max(1) as f64;
        for (place, ((_, _, color), median)) in present.iter().enumerate() {
            let top = top - place as f64 * height;
            let bar = [(0.0, top), (*median, top - height * 0.9)];
            chart.draw_series([Rectangle::new(bar, color.filled())])?;
            let at = (*median + most * 0.005, top - height * 0.1);
            let text = Text::new(format!("{median:.0}"), at, ("sans-serif", 10));
            chart.draw_series([text])?;
        }
        let (_, y) = chart.backend_coord(&(0.0, top - 0.34));
        root.draw(&Text::new(row.name(), (12, y - 2), ("sans-serif", 13)))?;
    }
    for (_, name, color) in BARS {
        // A series of nothing, for the legend.
        chart
            .draw_series(std::iter::empty::<Rectangle<(f64, f64)>>())?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 16, y + 5)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .border_style(BLACK)
        .label_font(("sans-serif", 13))
        .draw()?;
    root.present()?;
    Ok(())
}
