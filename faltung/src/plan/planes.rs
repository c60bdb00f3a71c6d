//! Problems whose channels are computed one after the other, as planes of `f32`.
//!
//! Most fast kernels are for one channel of `f32`. An image of another format takes them in three steps. One kernel
//! converts it into a plane for each channel, the fast one convolves each plane, and a third converts the planes into
//! the result. The values are the same: each pixel type fits an `f32`, and the last step rounds as a convolution kernel
//! does when it stores a result. What the conversions cost is their traffic in device memory.
//!
//! Integers have the bits of ordered sums. So where the fast kernel is not bit-exact, the last step is another
//! conversion, which proves each value, or computes it again from the image: see [`Proof`].

use std::ops::Range;

use kernels_gpu::abi::params::{Params, padded_mask_width};
use kernels_gpu::util::planes::proven::{self, ProvenParams};
use kernels_gpu::util::planes::{Conversion, PlaneParams, from_planes, grid, to_planes};

use super::cost::{self, Terms};
use super::passes::Passes;
use super::{Launch, Limits, Plan, Proof, device_pitch};
use crate::{PixelFormat, PixelType, Problem};

/// The conversions around a kernel that computes planes.
#[derive(Clone, Copy, Debug)]
pub struct Planes {
    /// From the image. None if the image is a plane.
    pub(crate) to: Option<&'static Conversion>,
    /// To the result. None if the result is a plane.
    pub(crate) from: Option<&'static Conversion>,
    format: PixelFormat,
}

impl Planes {
    /// The conversions for images of a format. None if both images are planes.
    pub(super) fn of(format: PixelFormat) -> Option<Self> {
        let channels = format.channels as u32;
        let (to, from) = (to_planes(format.input, channels), from_planes(format.output, channels));
        (to.is_some() || from.is_some()).then_some(Self { to, from, format })
    }

    /// The format of the images.
    pub(super) fn format(&self) -> PixelFormat {
        self.format
    }

    /// The number of planes that are computed.
    pub(super) fn channels(&self) -> usize {
        self.format.channels
    }

    /// What the time of the conversions of an image of `pixels` pixels depends on, without the one with a proof.
    pub(super) fn terms(&self, pixels: usize, has_proof: bool, limits: &Limits) -> Terms {
        let PixelFormat { channels, input, output } = self.format;
        let of = |conversion: Option<_>, kind: PixelType| {
            conversion.map_or(Terms::default(), |_| cost::conversion(pixels * channels, kind.bytes(), limits))
        };
        let (to, from) = (of(self.to, input), of(self.from.filter(|_| !has_proof), output));
        std::array::from_fn(|term| to[term] + from[term])
    }

    /// The number of planes that need memory of their own: those of the source, and those of the result.
    fn counts(&self) -> (usize, usize) {
        let count = |conversion: Option<_>| if conversion.is_some() { self.channels() } else { 0 };
        (count(self.to), count(self.from))
    }
}

/// Which rows a run computes, and of what.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// The number of image rows that are on the device, counted from the first.
    pub(crate) height: usize,
    /// The rows among them that are not yet converted to planes.
    pub(crate) fresh: Range<usize>,
    /// The rows of the result to compute.
    pub(crate) outputs: Range<usize>,
}

impl Rows {
    /// Outputs of an image of which no row was converted before.
    pub(crate) fn of(height: usize, outputs: Range<usize>) -> Self {
        Self { height, fresh: 0..height, outputs }
    }
}

/// A place in one of the arrays of a run: bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Source(usize),
    Result(usize),
    /// In the memory of scratch and planes.
    Planes(usize),
}

/// A kernel launch of a run, with its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Convolve {
        launch: Launch,
        from: Place,
        to: Place,
    },
    /// The three passes of `fft_passes`.
    Transform {
        passes: Passes,
        from: Place,
        to: Place,
        scratch: Place,
    },
    Convert {
        conversion: &'static Conversion,
        grid: (u32, u32),
        params: PlaneParams,
        from: Place,
        to: Place,
    },
    /// The conversion of planes to integers, with a proof. It reads the whole source.
    Prove {
        conversion: &'static proven::Conversion,
        grid: (u32, u32),
        shared_bytes: u32,
        params: ProvenParams,
        planes: Place,
    },
}

impl Plan {
    /// Bytes of a plane's row.
    fn plane_pitch(&self) -> usize {
        device_pitch(self.params.width as usize, size_of::<f32>()) * size_of::<f32>()
    }

    /// Bytes of the planes' memory for each row of the image.
    pub(crate) fn planes_row_bytes(&self) -> usize {
        let count = self.planes.map_or(0, |planes| {
            let (source, result) = planes.counts();
            source + result
        });
        count * self.plane_pitch()
    }

    /// Whether something lies between the rows of a plane.
    #[cfg(feature = "cuda")]
    pub(crate) fn planes_have_gaps(&self) -> bool {
        self.planes.is_some() && self.plane_pitch() != self.params.width as usize * size_of::<f32>()
    }

    /// The launches that compute rows of a problem with images of `format`, in order. Scratch and planes have
    /// `planes_bytes` bytes of memory together.
    pub(crate) fn steps(&self, format: PixelFormat, rows: &Rows, planes_bytes: usize) -> Vec<Step> {
        let Rows { height, fresh, outputs } = rows;
        let Some(planes) = self.planes else {
            return self.convolutions(*height, outputs, (Place::Source(0), Place::Result(0)));
        };
        let pitch = self.plane_pitch();
        let scratch = self.scratch_bytes();
        let plane_bytes = (planes_bytes - scratch) / self.planes_row_bytes() * pitch;
        let place = |bytes: usize| Place::Planes(scratch + bytes);
        let (source_planes, _) = planes.counts();
        let width = self.params.width as usize;
        // The grid and the parameters of a conversion, and where its rows begin in the image and in a plane, in bytes.
        let conversion_of = |rows: &Range<usize>, value_bytes: usize| {
            let interleaved_pitch = device_pitch(width * format.channels, value_bytes);
            let params = PlaneParams {
                width: width as i32,
                rows: rows.len() as i32,
                interleaved_pitch: interleaved_pitch as i32,
                plane_pitch: (pitch / size_of::<f32>()) as i32,
                plane_stride: (plane_bytes / size_of::<f32>()) as i64,
            };
            let grid = grid(width as u32, rows.len() as u32);
            (grid, params, rows.start * interleaved_pitch * value_bytes, rows.start * pitch)
        };
        let mut steps = Vec::new();
        if let Some(conversion) = planes.to
            && !fresh.is_empty()
        {
            let (grid, params, image, plane) = conversion_of(fresh, format.input.bytes());
            steps.push(Step::Convert { conversion, grid, params, from: Place::Source(image), to: place(plane) });
        }
        for channel in 0..planes.channels() {
            let from = planes.to.map_or(Place::Source(0), |_| place(channel * plane_bytes));
            let to = planes.from.map_or(Place::Result(0), |_| place((source_planes + channel) * plane_bytes));
            steps.extend(self.convolutions(*height, outputs, (from, to)));
        }
        if let Some(proof) = &self.proof {
            let planes = place(source_planes * plane_bytes);
            steps.extend(self.proof_steps(proof, format, rows, plane_bytes, planes));
        } else if let Some(conversion) = planes.from
            && !outputs.is_empty()
        {
            let (grid, params, image, plane) = conversion_of(outputs, format.output.bytes());
            let from = place(source_planes * plane_bytes + plane);
            steps.push(Step::Convert { conversion, grid, params, from, to: Place::Result(image) });
        }
        steps
    }

    /// The conversions with a proof: one, but for more rows than one grid has.
    fn proof_steps(
        &self,
        proof: &Proof,
        format: PixelFormat,
        Rows { height, outputs, .. }: &Rows,
        plane_bytes: usize,
        planes: Place,
    ) -> impl Iterator<Item = Step> {
        let Proof { conversion, certain, unit, .. } = *proof;
        let values = self.params.width as usize * format.channels;
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        let convolution = Params {
            height: *height as i32,
            src_pitch: device_pitch(values, format.input.bytes()) as i32,
            dst_pitch: device_pitch(values, format.output.bytes()) as i32,
            ..self.params
        };
        let plane_pitch = (self.plane_pitch() / size_of::<f32>()) as i32;
        let most = conversion.most_rows(mask, self.limits.shared_bytes) as usize;
        let (end, device) = (outputs.end, (self.limits.sm_count, self.limits.shared_bytes));
        outputs.clone().step_by(most).map(move |first| {
            let rows = most.min(end - first);
            let size = (convolution.width as u32, rows as u32);
            let tile_rows = conversion.tile_rows(size, mask, device);
            let params = ProvenParams {
                convolution: Params { first_row: first as i32, ..convolution },
                rows: rows as i32,
                plane_pitch,
                plane_stride: (plane_bytes / size_of::<f32>()) as i64,
                certain,
                unit,
                tile_rows,
            };
            let grid = conversion.grid(size, tile_rows);
            // The proof fits the device, far below 2^32.
            let shared_bytes = conversion.shared_bytes(mask, tile_rows) as u32;
            Step::Prove { conversion, grid, shared_bytes, params, planes }
        })
    }

    /// The coefficients of the ordered sums, if there is a proof: rows in window order, filled up with zeros, in the
    /// unit that the proof's sums have.
    pub(crate) fn ordered_coefficients(&self, problem: &Problem) -> Option<Vec<f32>> {
        let proof = self.proof?;
        let window = problem.window();
        let pitch = padded_mask_width(window.width() as u32) as usize;
        let mut coefficients = vec![0.0; pitch * window.height()];
        let rows = window.coefficients().chunks_exact(window.width());
        for (to, from) in coefficients.chunks_exact_mut(pitch).zip(rows) {
            for (to, &from) in to.iter_mut().zip(from) {
                *to = proof.coefficient(from);
            }
        }
        Some(coefficients)
    }
}
