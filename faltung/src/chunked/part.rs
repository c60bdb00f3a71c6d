//! One chunk: which pixels it needs, and the small image that is made of them.

use std::ops::Range;

use super::{BoxError, ChunkSink, Window, WindowSource};
use crate::gather::{AxisWindow, Gathered};
use crate::parallel::threads;
use crate::{Error, Image, Pixel, Problem, Result, View};

/// A chunk of the result, and the pixels that it is computed from.
#[derive(Debug)]
pub(super) struct Part {
    window: Window,
    columns: Gathered,
    rows: Gathered,
    channels: usize,
    mask_height: usize,
}

impl Part {
    pub(super) fn new(problem: &Problem, window: Window) -> Self {
        let (mode, mask, origin) = (problem.border().mode(), problem.window(), problem.origin());
        let across = AxisWindow { side: mask.width(), origin: origin.1 };
        let down = AxisWindow { side: mask.height(), origin: origin.0 };
        Self {
            window,
            columns: Gathered::new(mode, problem.width(), across, &window.columns()),
            rows: Gathered::new(mode, problem.height(), down, &window.rows()),
            channels: problem.format().channels,
            mask_height: mask.height(),
        }
    }

    /// The rectangles that are read, row by row.
    fn windows(&self) -> impl Iterator<Item = Window> {
        let columns = self.columns.distinct();
        self.rows.distinct().into_iter().flat_map(move |rows| {
            let window = move |columns: &Range<usize>| Window {
                x: columns.start,
                y: rows.start,
                width: columns.len(),
                height: rows.len(),
            };
            columns.iter().map(window).collect::<Vec<_>>()
        })
    }

    /// Whether one rectangle of the image is what the chunk is computed from.
    fn is_one_window(&self) -> bool {
        self.columns.source.len() == 1 && self.rows.source.len() == 1
    }

    /// Values of the small image.
    fn values(&self) -> u64 {
        (self.columns.length as u64 * self.rows.length as u64).saturating_mul(self.channels as u64)
    }

    /// Bytes of the pixels that are read.
    pub(super) fn bytes_read<T>(&self) -> u64 {
        let pixels: u64 = self.windows().map(|window| window.pixels()).sum();
        pixels.saturating_mul((self.channels * size_of::<T>()) as u64)
    }

    /// Bytes of the chunk.
    pub(super) fn bytes_written<U>(&self) -> u64 {
        self.window.pixels().saturating_mul((self.channels * size_of::<U>()) as u64)
    }

    /// The most bytes that the chunk takes while it is under way.
    pub(super) fn bytes<T, U>(&self, source: &dyn WindowSource<T>, sink: &dyn ChunkSink<U>) -> u64 {
        // A chunk may have 2^60 pixels.
        let gathered = self.values().saturating_mul(size_of::<T>() as u64);
        let filtered = self.values().saturating_mul(size_of::<U>() as u64);
        let read = self.bytes_read::<T>();
        // The rectangles are read one after the other.
        let decoding = self.windows().map(|window| source.extra_bytes(window)).max().unwrap_or(0);
        let reading = read.saturating_add(decoding);
        let gathering = if self.is_one_window() { 0 } else { read.saturating_add(gathered) };
        let computing = gathered.saturating_add(filtered).saturating_add(self.scratch_bytes());
        let writing = filtered.saturating_add(sink.extra_bytes(self.window));
        reading.max(gathering).max(computing).max(writing)
    }

    /// An estimate of what the CPU takes to compute: each thread keeps some rows as high as the mask, in `f32`, and
    /// tables of its own.
    fn scratch_bytes(&self) -> u64 {
        let rows = (self.mask_height + 16) as u64;
        let row = (self.columns.length * self.channels * size_of::<f32>()) as u64;
        threads() as u64 * (2 * rows.min(256) * row + (1 << 20))
    }

    /// Reads the pixels, without repetition.
    pub(super) fn read<T: Pixel>(&self, source: &dyn WindowSource<T>) -> Result<Vec<(Window, Image<T>)>, BoxError> {
        let read = |window: Window| {
            let image = source.read(window)?;
            let [planned, found] = [(window.width, window.height), (image.width(), image.height())];
            if planned != found {
                return Err(Error::OtherSize { planned, found }.into());
            }
            if image.channels() != self.channels {
                return Err(Error::ChannelCount { required: self.channels.to_string(), found: image.channels() }.into());
            }
            Ok((window, image))
        };
        self.windows().map(read).collect()
    }

    /// The small image, from the rectangles that were read.
    pub(super) fn gather<T: Pixel>(&self, mut read: Vec<(Window, Image<T>)>) -> Result<Image<T>> {
        if self.is_one_window()
            && let Some((_, image)) = read.pop()
        {
            return Ok(image);
        }
        let mut image = Image::zeros(self.columns.length, self.rows.length, self.channels)?;
        let row_values = self.columns.length * self.channels;
        let from_rows = self.rows.source.iter().cloned().flatten();
        for (to, y) in image.values_mut().chunks_exact_mut(row_values).zip(from_rows) {
            let mut to = to;
            for columns in &self.columns.source {
                let holds = |(window, _): &&(Window, Image<T>)| {
                    window.rows().contains(&y) && window.columns().contains(&columns.start)
                };
                let (window, from) = read.iter().find(holds).expect("all pixels were read");
                let start = (columns.start - window.x) * self.channels;
                let (here, rest) = to.split_at_mut(columns.len() * self.channels);
                here.copy_from_slice(&from.row(y - window.y)[start..][..here.len()]);
                to = rest;
            }
        }
        Ok(image)
    }

    /// The chunk's values in the filtered small image.
    pub(super) fn outputs<'a, U: Pixel>(&self, filtered: &'a Image<U>) -> Result<View<'a, U>> {
        let pitch = filtered.width() * self.channels;
        let start = self.rows.first * pitch + self.columns.first * self.channels;
        let Window { width, height, .. } = self.window;
        View::new(width, height, self.channels, pitch, &filtered.values()[start..])
    }
}
