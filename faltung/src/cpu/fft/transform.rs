//! The transforms of a tile, in `f64`: real rows, then complex columns, and back.
//!
//! ```text
//! for each row of the tile         X[y, .] = real FFT of the row
//! for each few columns of X        gather, FFT, multiply by the mask's spectrum, inverse FFT, scatter
//! for each row of the result       inverse real FFT of X[y, .]
//! ```
//! The column pass reads and writes `X` once. The columns that it works on stay in the first-level cache.

use faltung_fft::{Complex, ComplexToReal, Fft, Pair, RealToComplex};

use crate::{Result, memory};

/// Columns that are gathered at a time: a cache line of complex numbers.
const COLUMNS: usize = 4;

/// The plans for tiles of one size.
pub(crate) struct Transform {
    width: usize,
    height: usize,
    /// Complex values from one row of `X` to the next: an odd number of cache lines. With a power of two, a column
    /// would fall into a few sets of the cache.
    stride: usize,
    row: Pair<dyn RealToComplex<f64>, dyn ComplexToReal<f64>>,
    column: Pair<dyn Fft<f64>, dyn Fft<f64>>,
}

/// The memory of one tile's transforms.
pub(crate) struct Buffers {
    /// The row that is transformed next, or that was last.
    pub(crate) row: Vec<f64>,
    spectrum: Vec<Complex<f64>>,
    columns: Vec<Complex<f64>>,
    scratch: Vec<Complex<f64>>,
}

/// The spectrum of a mask, conjugated for a correlation, and divided by the number of values of a tile.
pub(crate) struct Spectrum {
    /// Column by column.
    values: Vec<Complex<f64>>,
}

impl Transform {
    /// Plans for tiles of `width` (even) and `height`.
    pub(crate) fn new(width: usize, height: usize) -> Self {
        let lines = (width / 2 + 1).div_ceil(COLUMNS);
        Self {
            width,
            height,
            stride: (lines | 1) * COLUMNS,
            row: faltung_fft::real(width),
            column: faltung_fft::complex(height),
        }
    }

    /// Complex values of a row's spectrum.
    fn bins(&self) -> usize {
        self.width / 2 + 1
    }

    /// Memory for one tile at a time.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory).
    pub(crate) fn buffers(&self) -> Result<Buffers> {
        let zeros = |length| -> Result<Vec<Complex<f64>>> {
            let mut values = memory::with_capacity(length, "for the transforms of a tile")?;
            values.resize(length, Complex::default());
            Ok(values)
        };
        let scratch = [
            self.row.forward.get_scratch_len(),
            self.row.inverse.get_scratch_len(),
            self.column.forward.get_inplace_scratch_len(),
            self.column.inverse.get_inplace_scratch_len(),
        ];
        Ok(Buffers {
            row: vec![0.0; self.width],
            spectrum: zeros(self.stride * self.height)?,
            columns: zeros(COLUMNS * self.height)?,
            scratch: zeros(scratch.into_iter().max().unwrap_or(0))?,
        })
    }

    /// Transforms `buffers.row`, which is row `y` of the tile.
    pub(crate) fn row_forward(&self, buffers: &mut Buffers, y: usize) {
        let Buffers { row, spectrum, scratch, .. } = buffers;
        let to = &mut spectrum[y * self.stride..][..self.bins()];
        self.row.forward.process_with_scratch(row, to, scratch).expect("lengths are those of the plan");
    }

    /// Row `y` of the result into `buffers.row`.
    pub(crate) fn row_inverse(&self, buffers: &mut Buffers, y: usize) {
        let Buffers { row, spectrum, scratch, .. } = buffers;
        let from = &mut spectrum[y * self.stride..][..self.bins()];
        // Rounding errors. The exact values are real, as those of a real row.
        from[0].im = 0.0;
        from[self.bins() - 1].im = 0.0;
        self.row.inverse.process_with_scratch(from, row, scratch).expect("lengths are those of the plan");
    }

    /// The column pass. The tile has `rows` rows, the others are zeros; `wanted` rows of the result are written.
    pub(crate) fn multiply(&self, buffers: &mut Buffers, rows: usize, mask: &Spectrum, wanted: usize) {
        self.few_columns().for_each(|first| self.multiply_columns(buffers, first, rows, mask, wanted));
    }

    /// The first of each few columns.
    pub(super) fn few_columns(&self) -> impl Iterator<Item = usize> {
        (0..self.bins()).step_by(COLUMNS)
    }

    /// [`multiply`](Self::multiply) for a few columns.
    pub(super) fn multiply_columns(
        &self,
        buffers: &mut Buffers,
        first: usize,
        rows: usize,
        mask: &Spectrum,
        wanted: usize,
    ) {
        let Buffers { spectrum, columns, scratch, .. } = buffers;
        let count = COLUMNS.min(self.bins() - first);
        let columns = &mut columns[..count * self.height];
        self.gather(spectrum, columns, first, rows);
        self.column.forward.process_with_scratch(columns, scratch);
        let factors = &mask.values[first * self.height..][..columns.len()];
        columns.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
        self.column.inverse.process_with_scratch(columns, scratch);
        for y in 0..wanted {
            let to = &mut spectrum[y * self.stride + first..][..count];
            to.iter_mut().enumerate().for_each(|(i, to)| *to = columns[i * self.height + y]);
        }
    }

    /// Copies `rows` rows of the columns from `first` on, each column's zeros behind them.
    fn gather(&self, spectrum: &[Complex<f64>], columns: &mut [Complex<f64>], first: usize, rows: usize) {
        let count = columns.len() / self.height;
        for y in 0..rows {
            let from = &spectrum[y * self.stride + first..][..count];
            from.iter().enumerate().for_each(|(i, &from)| columns[i * self.height + y] = from);
        }
        for column in columns.chunks_exact_mut(self.height) {
            column[rows..].fill(Complex::default());
        }
    }

    /// The spectrum of a mask in window order, in rows of `width` coefficients.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory).
    pub(crate) fn spectrum(&self, width: usize, coefficients: &[f64]) -> Result<Spectrum> {
        let mut buffers = self.buffers()?;
        for (y, row) in coefficients.chunks_exact(width).enumerate() {
            buffers.row.fill(0.0);
            buffers.row[..width].copy_from_slice(row);
            self.row_forward(&mut buffers, y);
        }
        let Buffers { spectrum, scratch, .. } = &mut buffers;
        let length = self.bins() * self.height;
        let mut values = memory::with_capacity(length, "for the spectrum of a mask")?;
        values.resize(length, Complex::default());
        let factor = 1.0 / (self.width * self.height) as f64;
        for first in 0..self.bins() {
            let column = &mut values[first * self.height..][..self.height];
            self.gather(spectrum, column, first, coefficients.len() / width);
            self.column.forward.process_with_scratch(column, scratch);
            column.iter_mut().for_each(|value| *value = value.conj() * factor);
        }
        Ok(Spectrum { values })
    }
}
