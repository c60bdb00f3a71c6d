//! How a kernel is launched: grid, block and parameters.

use std::ops::Range;

use kernels_gpu::abi::params::Params;
use kernels_gpu::fft::{self, passes};
use kernels_gpu::registry::{Entry, MaskForm};

use super::cost::Costs;

/// The most rows of blocks in one grid, by CUDA's rules.
pub(super) const MAX_GRID_Y: u32 = 65_535;

/// What a plan needs to know of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The most dynamic shared memory of a block, in bytes, after opting in.
    pub shared_bytes: u64,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// The clock of the multiprocessors in MHz; 0 where it is not known.
    pub clock_mhz: u32,
    /// The bandwidth of device memory by its clock and its bus, in GB/s; 0 where it is not known.
    pub memory_gb_s: u32,
    /// The second-level cache, in bytes; 0 where it is not known.
    pub l2_bytes: u64,
    /// Measured coefficients of the cost model. If they are of another device, the model scales them. None: those of the
    /// H100.
    pub costs: Option<&'static Costs>,
}

impl Limits {
    /// An H100's, which the emulator has.
    pub const H100: Self = Self {
        shared_bytes: cuda_emulator::Limits::H100.shared_bytes as u64,
        sm_count: 132,
        compute_capability: (9, 0),
        clock_mhz: 1980,
        memory_gb_s: 3352,
        l2_bytes: 50 << 20,
        costs: None,
    };

    /// What kernels cost.
    #[must_use]
    pub fn costs(&self) -> &'static Costs {
        self.costs.unwrap_or_else(Costs::h100)
    }
}

/// One kernel launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// Blocks in x and y.
    pub grid: (u32, u32),
    /// Threads of a block in x and y.
    pub block: (u32, u32),
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Columns and rows of the mask's values in device memory, at least: those of a row and of a column are one row,
    /// and so is a spectrum.
    pub mask_size: (usize, usize),
    /// The parameters.
    pub params: Params,
}

/// A kernel for an image and a mask on a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) entry: &'static Entry,
    /// For the whole image.
    pub(super) params: Params,
    pub(super) limits: Limits,
}

impl Geometry {
    /// The launches that compute the rows `outputs` of an image of `height` rows, otherwise as planned; more than one
    /// only for more than 65,535 rows of blocks. The last blocks may compute rows after them, too.
    #[must_use]
    pub(super) fn launches(&self, height: usize, outputs: Range<usize>) -> Vec<Launch> {
        let params = Params { height: height as i32, ..self.params };
        let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
        let (_, rows) = self.entry.outputs((mask_width, mask_height));
        let blocks_across = self.entry.blocks_across((mask_width, mask_height), params.width as u32);
        let mask_size = match self.entry.variant.spec().mask_form {
            MaskForm::Rows(_) | MaskForm::FixedPoint | MaskForm::SeparableFixedPoint => {
                (mask_width as usize, mask_height as usize)
            }
            MaskForm::Factors(_) => ((mask_width + mask_height) as usize, 1),
            MaskForm::ProvenFactors(_) => (self.entry.coefficients((mask_width, mask_height)) as usize, 1),
            MaskForm::Spectrum => (fft::layout::length((mask_width, mask_height)), 1),
            MaskForm::SpectrumOfPasses => (passes::layout::length((mask_width, mask_height)), 1),
        };
        let launch = |blocks_down: u32, first_row: u32| Launch {
            grid: (blocks_across, blocks_down),
            block: self.entry.block(),
            // An eligible entry's tile fits the device, far below 2^32.
            shared_bytes: self.entry.shared_bytes((mask_width, mask_height)) as u32,
            mask_size,
            params: Params { first_row: first_row as i32, ..params },
        };
        let first = outputs.start as u32;
        if !outputs.is_empty()
            && let Some(parts) = self.parts(height as u32 - first, blocks_across)
        {
            // They go down to the image's last row.
            return vec![launch(parts, first)];
        }
        let blocks_down = (outputs.len() as u32).div_ceil(rows);
        (0..blocks_down)
            .step_by(MAX_GRID_Y as usize)
            .map(|block| launch((blocks_down - block).min(MAX_GRID_Y), first + block * rows))
            .collect()
    }

    /// The rows of blocks that partition `rows` rows of the image, with `blocks_across` blocks side by side: as many as
    /// fill the device. None where a grid has a block for each tile.
    fn parts(&self, rows: u32, blocks_across: u32) -> Option<u32> {
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        // What a multiprocessor keeps for the system is not a block's to have.
        let shared_per_sm = self.limits.shared_bytes + 1024;
        self.entry.grid_dim_y(mask, (rows, MAX_GRID_Y), blocks_across, (self.limits.sm_count, shared_per_sm))
    }
}
